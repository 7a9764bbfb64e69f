// The frame around the pages: search, the state of the connection, tabs, keys.
import "./app.css";
import { render, type ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Dialogs } from "./dialogs";
import { LogIn } from "./login";
import { Leases } from "./pages/leases";
import { Jobs } from "./pages/jobs";
import { Locations } from "./pages/locations";
import { Log } from "./pages/log";
import { Nodes } from "./pages/nodes";
import { Now } from "./pages/now";
import { Pools } from "./pages/pools";
import { Waits } from "./pages/waits";
import {
  begin,
  link,
  nodes,
  notAsked,
  open,
  opened,
  page,
  refused,
  search,
  switchTheme,
  theme,
  totals,
  unreachable,
  who,
} from "./state";
import { count } from "./words";

interface Tab {
  name: string;
  title: string;
  page: () => ComponentChildren;
  count?: () => number;
}

const TABS: Tab[] = [
  { name: "now", title: "Now", page: () => <Now /> },
  { name: "pools", title: "Pools", page: () => <Pools />, count: () => totals.value.pools },
  { name: "waits", title: "Waiting", page: () => <Waits />, count: () => totals.value.waiting },
  { name: "leases", title: "Leases", page: () => <Leases />, count: () => totals.value.leases },
  { name: "log", title: "History", page: () => <Log /> },
  { name: "nodes", title: "Nodes", page: () => <Nodes />, count: () => nodes.value.length },
  { name: "locations", title: "Locations", page: () => <Locations /> },
  { name: "jobs", title: "Jobs", page: () => <Jobs /> },
];

function App() {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  const pressed = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || opened.value) return;
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement) {
      if (event.key === "Escape") {
        search.value = "";
        event.target.blur();
      }
      return;
    }
    const tab = TABS[Number(event.key) - 1];
    if (event.key === "/") {
      event.preventDefault();
      field.current?.focus();
    } else if (event.key === "t") switchTheme();
    else if (event.key === "?") open({ kind: "keys", id: "" });
    else if (tab) location.hash = tab.name;
  };
  const tab = TABS.find((one) => one.name === page.value) ?? TABS[0];
  if (refused.value) return <LogIn />;
  return (
    <>
      <header class="top">
        <div class="brand">
          <img src="icon.svg" alt="" />
          <h1>
            holdall <span class="dim">{who.value?.node}</span>
          </h1>
        </div>
        <input
          ref={field}
          type="search"
          value={search.value}
          onInput={(event) => (search.value = event.currentTarget.value)}
          placeholder="search pools, holders, reasons  ( / )"
          aria-label="search"
        />
        <div class="right">
          <span class={`link ${link.value}`} role="status">
            {link.value === "live" ? "live" : link.value === "lost" ? "connection lost, trying again" : "connecting"}
          </span>
          <button type="button" onClick={switchTheme} aria-label={theme.value === "dark" ? "light colours" : "dark colours"}>
            {theme.value === "dark" ? "☀" : "☾"}
          </button>
          <button type="button" onClick={() => open({ kind: "keys", id: "" })} aria-label="keys">
            ?
          </button>
        </div>
      </header>
      {unreachable.value && (
        <div class="notice bad" role="alert">
          {unreachable.value}
        </div>
      )}
      {notAsked.value.length > 0 && (
        <div class="notice" role="status">
          <span class="bad">Not asked:</span> {notAsked.value.map((one) => `${one.node} (${one.why})`).join(", ")}
        </div>
      )}
      <div class="body">
        <nav class="tabs" aria-label="pages">
          {TABS.map((one) => (
            <a href={`#${one.name}`} aria-current={one === tab ? "page" : undefined}>
              {one.title} {one.count && <span class="count">{count(one.count())}</span>}
            </a>
          ))}
        </nav>
        <main>{tab?.page()}</main>
      </div>
      <Dialogs />
    </>
  );
}

const place = document.getElementById("page");
if (place) render(<App />, place);
void begin();
