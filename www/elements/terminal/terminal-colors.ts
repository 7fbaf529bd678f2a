import { readable } from '../../terminal/contrast.js'
import type { Rgb } from '../../terminal/reports.js'
import { lookOf, type Span } from '../../terminal/spans.js'

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
      color: color === text ? '' : css(color),
      background: background === ground ? '' : css(background)
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

const css = ([red, green, blue]: Rgb): string => `rgb(${red} ${green} ${blue})`

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
