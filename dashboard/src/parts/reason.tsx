// To take something away from somebody, one says why.
import { useState } from "preact/hooks";

interface Props {
  text: string;
  button: string;
  send: (reason: string) => Promise<void>;
}

export function WithReason({ text, button, send }: Props) {
  const [reason, write] = useState("");
  const [said, say] = useState<string | null>(null);
  const [busy, working] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    working(true);
    try {
      await send(reason);
      say(null);
    } catch (problem) {
      say((problem as Error).message);
    }
    working(false);
  };
  return (
    <form class="with-reason" onSubmit={submit}>
      <label>
        {text} The reason is told and logged.
        <input required value={reason} maxLength={200} onInput={(event) => write(event.currentTarget.value)} placeholder="why" aria-label="reason" />
      </label>
      {said && (
        <p class="bad" role="alert">
          {said}
        </p>
      )}
      <div class="buttons">
        <button type="submit" class="danger" disabled={busy || !reason.trim()}>
          {button}
        </button>
      </div>
    </form>
  );
}
