import type { Rgb } from '../../terminal/functions.js'
import { lookOf, type Span } from '../../terminal/cells.js'
import { css } from '../element.js'

/* Contrast ratios of WCAG 2.2, and the adjustment of text colours that have too little contrast. */

function luminance(color: Rgb): number {
  const [red, green, blue] = color.map(part => {
    const value = part / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Returns the contrast ratio of two colours: from 1 (equal) to 21 (black on white). */
export function contrastOf(one: Rgb, other: Rgb): number {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

const steps = 24

/**
 * Returns a text colour with at least the wanted contrast to its background. A colour with too little contrast is moved
 * towards black or white, whichever contrasts more with the background, by the smallest sufficient step.
 */
export function readable(text: Rgb, ground: Rgb, wanted: number): Rgb {
  if (contrastOf(text, ground) >= wanted) return text
  const end: Rgb = contrastOf([255, 255, 255], ground) >= contrastOf([0, 0, 0], ground) ? [255, 255, 255] : [0, 0, 0]
  for (let step = 1; step < steps; step++) {
    const moved = text.map((part, index) => Math.round(part + (((end[index] as number) - part) * step) / steps))
    if (contrastOf(moved as unknown as Rgb, ground) >= wanted) return moved as unknown as Rgb
  }
  return end
}

/** The classes and CSS colours of a span. Empty for defaults. */
export interface Drawing {
  classes: string
  color: string
  background: string
}

/** Converts the colours of a program to those of the theme. */
export interface TerminalColors {
  drawingOf(span: Pick<Span, 'foreground' | 'background'>): Drawing
  rgbOf(which: number | 'foreground' | 'background' | 'cursor'): Rgb | null
  /** DECSCNM: text and background are swapped. */
  isReversed: boolean
  /** Reads the theme again. Returns whether anything has changed. */
  refresh(): boolean
}

/** WCAG 2.2 §1.4.3. Keeps a program legible that chose its colours for another background. */
const leastContrast = 4.5
const maxDrawings = 5000

/**
 * Reads the colours from the custom properties `--terminal-0` … `--terminal-15`, `-text`, `-ground` and `-cursor` of an
 * element.
 */
export function createTerminalColors(element: HTMLElement): TerminalColors {
  let palette: Rgb[] = []
  let [text, ground, cursor]: [Rgb, Rgb, Rgb] = [
    [0, 0, 0],
    [255, 255, 255],
    [0, 0, 0]
  ]
  let known = ''
  let isReversed = false
  const drawings = new Map<string, Drawing>()

  const rgb = (color: string | number): Rgb => {
    if (typeof color === 'number') return palette[color] as Rgb
    const value = Number.parseInt(color.slice(1), 16)
    return [value >> 16, (value >> 8) & 255, value & 255]
  }
  const draw = (span: Pick<Span, 'foreground' | 'background'>): Drawing => {
    const look = lookOf(span)
    const isInverse = look.isInverse !== isReversed
    const [front, back] = isInverse ? [ground, text] : [text, ground]
    const background = look.background === null ? back : rgb(look.background)
    const wanted = look.foreground === null ? front : rgb(look.foreground)
    const color = look.classes.includes('hidden') ? background : readable(wanted, background, leastContrast)
    return {
      classes: look.classes.join(' '),
      color: color === text ? '' : cssOf(color),
      background: background === ground ? '' : cssOf(background)
    }
  }

  return {
    get isReversed() {
      return isReversed
    },
    set isReversed(now) {
      if (now !== isReversed) drawings.clear()
      isReversed = now
    },
    drawingOf(span) {
      const key = `${span.foreground} ${span.background}`
      let drawing = drawings.get(key)
      if (drawing === undefined) {
        if (drawings.size === maxDrawings) drawings.clear()
        drawing = draw(span)
        drawings.set(key, drawing)
      }
      return drawing
    },
    rgbOf(which) {
      if (typeof which === 'number') return palette[which] ?? null
      return { foreground: text, background: ground, cursor }[which]
    },
    refresh() {
      const names = [...Array.from({ length: 16 }, (_, index) => String(index)), 'text', 'ground', 'cursor']
      const read = names.map(name => resolve(element, `--terminal-${name}`))
      const now = JSON.stringify(read)
      if (now === known) return false
      known = now
      palette = read.slice(0, 16)
      ;[text, ground, cursor] = read.slice(16) as [Rgb, Rgb, Rgb]
      drawings.clear()
      return true
    }
  }
}

const cssOf = ([red, green, blue]: Rgb): string => `rgb(${red} ${green} ${blue})`

/** Returns the computed value of a property in the current theme. */
function resolve(element: HTMLElement, name: string): Rgb {
  const probe = document.createElement('i')
  probe.hidden = true
  probe.style.color = `var(${name})`
  element.append(probe)
  const parts =
    getComputedStyle(probe)
      .color.match(/[\d.]+/g)
      ?.map(Number) ?? []
  probe.remove()
  return [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0]
}

/**
 * The sheet of the terminal. Its palette differs from that of logs: programs combine any colours, and the terminal
 * ensures the contrast (terminal-colors.ts).
 */
export const terminalSheet = css`
  svc-terminal {
    --terminal-ground: var(--log-ground);
    --terminal-text: var(--log-text);
    --terminal-cursor: var(--accent);
    --terminal-0: light-dark(#24292f, #1d2228);
    --terminal-1: light-dark(#b91f2e, #e5534b);
    --terminal-2: light-dark(#17753f, #46a361);
    --terminal-3: light-dark(#8a5a00, #c69026);
    --terminal-4: light-dark(#1f56c4, #3f6fd6);
    --terminal-5: light-dark(#8534a8, #a96bd6);
    --terminal-6: light-dark(#0b6f7b, #2b9aa6);
    --terminal-7: light-dark(#d3d8de, #c6ccd4);
    --terminal-8: light-dark(#5f6772, #707985);
    --terminal-9: light-dark(#d8343f, #ff7b82);
    --terminal-10: light-dark(#1f9450, #7ee2a3);
    --terminal-11: light-dark(#b07a00, #f5cf7d);
    --terminal-12: light-dark(#3a78ea, #7ba6ff);
    --terminal-13: light-dark(#a552c9, #d594f0);
    --terminal-14: light-dark(#12909f, #86dfe8);
    --terminal-15: light-dark(#ffffff, #ffffff);

    position: relative;
    display: block;
    min-width: 0;
    min-height: 0;
    padding: 8px 0 8px 10px;
    overflow: clip;
    background: var(--terminal-ground);
    color: var(--terminal-text);

    > .view {
      position: relative;
      overflow: hidden scroll;
      overscroll-behavior: contain;
      scrollbar-gutter: stable;
      scrollbar-width: thin;
      font: var(--size-13) / 1.2 var(--mono);
      font-variant-ligatures: none;
      font-kerning: none;
      cursor: text;
      contain: strict;
      user-select: none;
    }

    .space { position: relative; overflow: clip; }
    .rows, .marks { position: absolute; top: 0; left: 0; right: 0; }
    .rows > div { height: var(--cell-height); line-height: var(--cell-height); white-space: pre; contain: layout style; }
    .marks { pointer-events: none; }
    .marks > i { position: absolute; height: var(--cell-height); }
    .marks > .selected { background: color-mix(in srgb, var(--accent) 32%, transparent); }
    .marks > .hit { background: color-mix(in srgb, var(--warning) 30%, transparent); }
    .marks > .current { outline: 2px solid var(--warning); background: color-mix(in srgb, var(--warning) 40%, transparent); }
    .ruler { position: absolute; visibility: hidden; white-space: pre; }

    .box { display: inline-block; height: 100%; vertical-align: top; overflow: clip; }
    .bold { font-weight: 700; }
    .dim { opacity: 0.7; }
    .italic { font-style: italic; }
    .underline { text-decoration: underline; text-underline-offset: 2px; }
    .double { text-decoration-style: double; }
    .curly { text-decoration-style: wavy; }
    .dotted { text-decoration-style: dotted; }
    .dashed { text-decoration-style: dashed; }
    .struck { text-decoration: line-through; }
    .underline.struck { text-decoration-line: underline line-through; }
    .hidden { user-select: none; }

    .cursor {
      position: absolute;
      height: var(--cell-height);
      overflow: clip;
      line-height: var(--cell-height);
      white-space: pre;
      box-shadow: inset 0 0 0 1px var(--terminal-cursor);
      color: transparent;
      pointer-events: none;
    }
    &[data-focused] .cursor.block { background: var(--terminal-cursor); color: var(--terminal-ground); }
    &[data-focused] .cursor.bar { box-shadow: inset 2px 0 0 var(--terminal-cursor); }
    &[data-focused] .cursor.underline { box-shadow: inset 0 -2px 0 var(--terminal-cursor); text-decoration: none; }
    &[data-focused] .cursor.blinks { animation: svc-terminal-blink 1.2s steps(1) infinite; }

    .keys {
      position: absolute;
      width: 2ch;
      min-height: 0;
      height: var(--cell-height);
      padding: 0;
      border: 0;
      border-radius: 0;
      outline: 0;
      background: var(--terminal-ground);
      color: inherit;
      font: inherit;
      line-height: var(--cell-height);
      resize: none;
      overflow: hidden;
      white-space: pre;
      opacity: 0;
      pointer-events: none;
    }
    .keys.composing { width: 24ch; opacity: 1; outline: 1px solid var(--accent); }
    .keys.menu { width: 24px; height: 24px; pointer-events: auto; }

    > svc-find { position: absolute; top: 8px; right: 20px; z-index: 2; }
    > .resume {
      position: absolute;
      bottom: 12px;
      left: 50%;
      translate: -50%;
      border-color: transparent;
      border-radius: 99px;
      box-shadow: var(--float);
    }
    &[data-ringing] { animation: svc-terminal-ring 160ms ease-out; }

    @media (max-width: 719px) {
      padding-left: 6px;
      > .view { font-size: var(--size-12); }
      > svc-find { right: 8px; left: 8px; }
    }
    @media (prefers-reduced-motion: reduce) {
      &[data-focused] .cursor.blinks { animation: none; }
    }
  }

  @keyframes svc-terminal-blink { 50% { opacity: 0; } }
  @keyframes svc-terminal-ring { from { box-shadow: inset 0 0 0 2px var(--warning); } }
`

export const terminalPageSheet = css`
  /* Uses all available space; the frame gives other pages less. */
  .frame > .content > main > svc-page-terminal {
    display: flex;
    flex-direction: column;
    gap: 8px;
    max-width: none;
    --banner: 0px;
    height: calc(100dvh - var(--top) - 24px - var(--banner));
    margin-bottom: -48px;
    @media (max-width: 719px) {
      height: calc(100dvh - var(--top) - 84px - var(--banner) - env(safe-area-inset-bottom));
      margin-bottom: -32px;
    }
  }

  /* The height of what is above the pages of a node. */
  .frame > .content > main:has(> svc-node-banner) > svc-page-terminal {
    --banner: 108px;
    @media (max-width: 719px) { --banner: 150px; }
  }

  svc-page-terminal {
    > .bar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 12px; min-width: 0; }
    h1 { font-size: var(--size-16); letter-spacing: 0; }

    .sessions { display: flex; flex: 1 1 200px; gap: 4px; min-width: 0; overflow-x: auto; scrollbar-width: none; }
    .tab { display: flex; flex: 0 1 220px; min-width: 96px; border-radius: var(--radius); }
    .tab:has([aria-selected='true']) { background: var(--hover); }
    .tab > [role='tab'] {
      flex: 1;
      justify-content: flex-start;
      min-width: 0;
      min-height: 32px;
      padding: 0 4px 0 10px;
      border: 0;
      background: none;
      color: var(--muted);
      font-size: var(--size-13);
    }
    .tab > [aria-selected='true'] { color: var(--text); }
    .tab > .close { min-height: 32px; padding: 0 8px; }
    .dot { flex: none; width: 7px; height: 7px; border-radius: 50%; background: var(--success); }
    .dot.connecting { background: var(--running); }
    .dot.lost { background: none; box-shadow: inset 0 0 0 2px var(--warning); }
    .dot.ended { background: var(--edge); border-radius: 1px; }
    .dot.rung { background: var(--warning); }

    .tools { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; min-width: 0; }
    .tools select:not([type]) { width: auto; max-width: 200px; min-height: 32px; padding-block: 2px; }
    .tools button { min-height: 32px; padding-block: 2px; }
    .leave { margin-right: 8px; }
    @media (max-width: 1099px), (pointer: coarse) { .leave { display: none; } }
    .tools label { min-height: 32px; white-space: nowrap; font-size: var(--size-13); color: var(--muted); gap: 6px; }

    > .stage { position: relative; flex: 1; display: grid; min-height: 0; }
    [role='tabpanel'] {
      position: relative;
      display: grid;
      grid-template: minmax(0, 1fr) auto auto / minmax(0, 1fr);
      min-height: 0;
      border: 1px solid var(--line);
      border-radius: calc(var(--radius) + 2px);
      overflow: clip;
    }
    [role='tabpanel'][hidden] { display: none; }
    [role='tabpanel']:focus-within { border-color: var(--accent); }
    .note {
      display: flex;
      flex-wrap: wrap;
      align-items: center;
      gap: 8px 12px;
      padding: 8px 12px;
      border-top: 1px solid var(--line);
      background: var(--raised);
      font-size: var(--size-13);
    }
    .note > p { flex: 1 1 240px; }
    /* Temporary notes must not change the size of the screen, because the program would have to redraw it. */
    .note:not(.ended) {
      position: absolute;
      inset: 10px 26px auto auto;
      flex-wrap: nowrap;
      max-width: min(420px, calc(100% - 52px));
      border: 0;
      border-radius: var(--radius);
      box-shadow: var(--float);
    }
    .note button { min-height: 30px; padding-block: 2px; font-size: var(--size-13); }
    .note.connecting { opacity: 0; animation: appear var(--appear) 300ms forwards; pointer-events: none; }

    @media (max-width: 719px) { .tools .check { display: none; } .tools { flex: 1 1 100%; } .tools select:not([type]) { flex: 1 1 0; width: 0; min-width: 0; max-width: none; } }
  }
`
