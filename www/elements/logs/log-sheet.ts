import { css } from '../../dom/element.js'

/** The sheet of `svc-log`. */
export const logSheet = css`
  svc-log {
    position: relative;
    display: grid;
    grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
    overflow: clip;
    container-type: inline-size;

    .bar {
      display: flex;
      flex-wrap: wrap;
      align-items: center;
      gap: 4px;
      padding: 6px 8px 6px 16px;
      border-bottom: 1px solid var(--line);
    }

    .bar h2 { flex: 1; min-width: 60px; font-size: var(--size-14); }
    .bar button { padding-inline: 10px; font-size: var(--size-13); }
    .bar button[aria-pressed='true'] { background: var(--accent-quiet); color: var(--accent); }
    /* In a narrow container there is room for icons only; screen readers still get the words. */
    @container (max-width: 540px) {
      .bar select { width: 104px; }
      .bar button:has(> .icon) > span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    }
    .bar select { width: 150px; min-height: 32px; padding-block: 0; border-color: transparent; background-color: transparent; font-size: var(--size-13); }
    .bar select:hover { background-color: var(--hover); }
    .bar form { display: flex; flex-basis: 100%; flex-wrap: wrap; align-items: center; gap: 8px; padding: 4px 0; }
    .bar form label { font-size: var(--size-13); }
    .bar form input { width: auto; }
    .bar form .muted { flex: 1; min-width: 160px; }

    /* The region has its own name, and on a phone the switches need the line. */
    @media (max-width: 719px) { .bar { padding-left: 8px; } .bar h2 { display: none; } }

    .scroll {
      min-height: 160px;
      max-height: min(70dvh, 760px);
      overflow: auto;
      overflow-anchor: none;
      overscroll-behavior-y: contain;
      padding: 10px 0;
      background: var(--log-ground);
      border-radius: 0 0 7px 7px;
      color: var(--log-text);
      font: var(--size-12) / 1.4 var(--mono);
      contain: content;
    }

    &.tall .scroll { height: 100%; max-height: none; }
    &.tall.railed .scroll { scrollbar-width: none; }
    &.tall.railed .scroll::-webkit-scrollbar { width: 0; }

    .scroll:focus-visible { outline-offset: -2px; }
    /* Lines outside of a log that has become shorter must not extend it. */
    .space { position: relative; overflow-y: clip; }
    .lines { position: absolute; top: 0; left: 0; min-width: 100%; }
    .line { display: flex; min-height: 1.4em; padding-inline: 16px; white-space: pre; cursor: text; }
    &[wrap] .line { white-space: pre-wrap; word-break: break-all; }
    &[wrap] .lines { right: 0; }
    .line[data-level='error'] { box-shadow: inset 3px 0 var(--ansi-1); }
    .line[data-level='warn'] { box-shadow: inset 3px 0 var(--ansi-3); }
    .line:hover { background: var(--hover); }
    .line.here { background: var(--accent-quiet); box-shadow: inset 3px 0 var(--accent); }
    .line time { flex: none; width: 14ch; color: var(--muted); user-select: none; }
    .line > .text { min-width: 0; tab-size: 8; }
    .line a { color: inherit; text-decoration: underline; text-decoration-color: var(--edge); text-underline-offset: 2px; }
    .line a:hover { color: var(--accent); }
    .line mark { background: var(--warning-quiet); color: inherit; box-shadow: 0 1px var(--warning); }
    .line.note {
      justify-content: center;
      overflow: hidden;
      color: var(--muted);
      font-family: var(--sans);
      white-space: nowrap;
      user-select: none;
      cursor: default;
    }
    .line.note::before, .line.note::after {
      content: '';
      flex: 0 1 80px;
      align-self: center;
      margin-inline: 12px;
      border-top: 1px dashed var(--edge);
    }
    .line.open { flex-wrap: wrap; }
    .unfolded { flex-basis: 100%; padding-left: 4ch; overflow: hidden; color: var(--muted); white-space: pre; }

    .source {
      flex: none;
      width: 16ch;
      padding-right: 2ch;
      overflow: hidden;
      text-overflow: ellipsis;
      white-space: nowrap;
      user-select: none;
    }
    [data-source='0'] { color: var(--ansi-4); }
    [data-source='1'] { color: var(--ansi-5); }
    [data-source='2'] { color: var(--ansi-2); }
    [data-source='3'] { color: var(--ansi-3); }
    [data-source='4'] { color: var(--ansi-6); }
    [data-source='5'] { color: var(--ansi-1); }

    .ruler { position: absolute; visibility: hidden; white-space: pre; }
    .none { padding: 0 16px; color: var(--muted); font-family: var(--sans); font-size: var(--size-13); }

    .resume {
      position: absolute;
      left: 50%;
      bottom: 16px;
      translate: -50%;
      border-radius: 99px;
      border-color: transparent;
      box-shadow: var(--float);
    }

    .bold { font-weight: 700; }
    .dim { opacity: 0.75; }
    .italic { font-style: italic; }
    .underline { text-decoration: underline; }
    .struck { text-decoration: line-through; }
    .underline.struck { text-decoration: underline line-through; }
  }
`
