// Where the node wants to know who looks.
export function LogIn() {
  return (
    <main class="alone">
      <div class="card">
        <h1>holdall</h1>
        <p>
          This node shows itself to people it knows. Open the page by a log-in link: <code>holdall serve</code> prints one when it starts on a terminal.
          Another one is made on the node's host, STATE being its state folder:
        </p>
        <p>
          <code class="breaks">{"curl --unix-socket STATE/http.sock -H 'Content-Type: application/json' -d '{}' http://node/v1/logins"}</code>
        </p>
        <p class="dim">A link works once; the log-in lasts 12 hours.</p>
      </div>
    </main>
  );
}
