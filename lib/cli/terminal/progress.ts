import type { Paint } from './colors.js'
import { formatBytes } from '../../shared/size.js'
import { plainText } from './terminal-text.js'
import { humanDuration } from './units.js'
import { cutToWidth, widthOf } from './width.js'

/** A progress bar. */
export interface Progress {
  /** Sets the amount done so far. Draws at most every 100 ms. */
  update(done: number, total: number): void
  /** Replaces the bar with a sentence. */
  end(sentence: string): void
  /** Removes the bar after a failure. */
  clear(): void
}

const drawEveryMs = 100
const defaultLineEveryMs = 15_000
const barColumns = 24
const leastTextColumns = 16
const defaultColumns = 80

/** How progress looks on a stream. */
export interface Look {
  paint: Paint
  /** Whether a line can be drawn again (screen.ts). */
  isDrawn: boolean
  /** Time between two lines where it is not, in ms. */
  lineEveryMs?: number
}

/** What a progress bar shows. */
export interface Shown {
  label: string
  /** Returns an amount in words. Default: bytes. */
  inWords?: ((amount: number) => string) | undefined
}

/**
 * Starts a progress bar on a screen. Elsewhere it prints one line at the start, one at the end, and one each 15 s in
 * between: a CI system ends a job that is silent.
 */
export function startProgress(stream: NodeJS.WriteStream, look: Look, shown: Shown): Progress {
  return look.isDrawn ? startBar(stream, look.paint, shown) : startLines(stream, look, shown)
}

function startLines(
  stream: NodeJS.WriteStream,
  { lineEveryMs = defaultLineEveryMs }: Look,
  { label, inWords = formatBytes }: Shown
): Progress {
  const line = plainText(label)
  const startedAtMs = Date.now()
  let now: [done: number, total: number] | null = null
  stream.write(`${line}…\n`)
  const timer = setInterval(() => {
    const part = now === null ? '' : `, ${inWords(now[0])} of ${inWords(now[1])}`
    stream.write(`${line}… ${humanDuration(Date.now() - startedAtMs)}${part}\n`)
  }, lineEveryMs).unref()
  return {
    update: (done, total) => void (now = [done, total]),
    end(sentence) {
      clearInterval(timer)
      stream.write(`${sentence}\n`)
    },
    clear: () => clearInterval(timer)
  }
}

function startBar(stream: NodeJS.WriteStream, paint: Paint, { label, inWords = formatBytes }: Shown): Progress {
  const startedAtMs = Date.now()
  let drawnAtMs = 0

  function draw(done: number, total: number): void {
    const part = total > 0 ? Math.min(1, done / total) : 1
    const full = Math.round(part * barColumns)
    const bar = paint.green('█'.repeat(full)) + paint.dim('░'.repeat(barColumns - full))
    const seconds = (Date.now() - startedAtMs) / 1000
    const rate = seconds > 0.5 ? ` · ${inWords(Math.round(done / seconds))}/s` : ''
    const left =
      part > 0.02 && part < 1 && seconds > 2 ? ` · ${humanDuration((seconds / part - seconds) * 1000)} left` : ''
    const text = `${Math.floor(part * 100)}% of ${inWords(total)}${rate}${left}`
    // A line that wraps cannot be erased, so the text is shortened first, then the label.
    const room = (stream.columns ?? defaultColumns) - barColumns - 3
    const shown = cutToWidth(label, Math.max(1, room - leastTextColumns))
    stream.write(`\r\x1b[K${shown} ${bar} ${cutToWidth(text, Math.max(1, room - widthOf(shown)))}`)
  }

  return {
    update(done, total) {
      const now = Date.now()
      if (now - drawnAtMs < drawEveryMs) return
      drawnAtMs = now
      draw(done, total)
    },
    end: sentence => void stream.write(`\r\x1b[K${sentence}\n`),
    clear: () => void stream.write('\r\x1b[K')
  }
}
