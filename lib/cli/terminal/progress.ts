import type { Paint } from './colors.js'
import { formatBytes } from '../../shared/size.js'
import { plainText } from './terminal-text.js'
import { humanDuration } from './units.js'
import { cutToWidth, widthOf } from './width.js'

/** A progress bar. */
export interface Progress {
  /** Sets the number of bytes done so far. Draws at most every 100 ms. */
  update(doneBytes: number, totalBytes: number): void
  /** Replaces the bar with a sentence. */
  end(sentence: string): void
  /** Removes the bar after a failure. */
  clear(): void
}

const drawEveryMs = 100
const barColumns = 24
const leastTextColumns = 16
const defaultColumns = 80

/** Starts a progress bar on a terminal. Elsewhere it prints one line at the start and one at the end. */
export function startProgress(stream: NodeJS.WriteStream, paint: Paint, label: string): Progress {
  return stream.isTTY ? startBar(stream, paint, label) : startLines(stream, plainText(label))
}

function startLines(stream: NodeJS.WriteStream, label: string): Progress {
  stream.write(`${label}…\n`)
  return { update: () => {}, end: sentence => void stream.write(`${sentence}\n`), clear: () => {} }
}

function startBar(stream: NodeJS.WriteStream, paint: Paint, label: string): Progress {
  const startedAtMs = Date.now()
  let drawnAtMs = 0

  function draw(doneBytes: number, totalBytes: number): void {
    const part = totalBytes > 0 ? Math.min(1, doneBytes / totalBytes) : 1
    const full = Math.round(part * barColumns)
    const bar = paint.green('█'.repeat(full)) + paint.dim('░'.repeat(barColumns - full))
    const seconds = (Date.now() - startedAtMs) / 1000
    const rate = seconds > 0.5 ? ` · ${formatBytes(doneBytes / seconds)}/s` : ''
    const left =
      part > 0.02 && part < 1 && seconds > 2 ? ` · ${humanDuration((seconds / part - seconds) * 1000)} left` : ''
    const text = `${Math.floor(part * 100)}% of ${formatBytes(totalBytes)}${rate}${left}`
    // A line that wraps cannot be erased, so the text is shortened first, then the label.
    const room = (stream.columns ?? defaultColumns) - barColumns - 3
    const shown = cutToWidth(label, Math.max(1, room - leastTextColumns))
    stream.write(`\r\x1b[K${shown} ${bar} ${cutToWidth(text, Math.max(1, room - widthOf(shown)))}`)
  }

  return {
    update(doneBytes, totalBytes) {
      const now = Date.now()
      if (now - drawnAtMs < drawEveryMs) return
      drawnAtMs = now
      draw(doneBytes, totalBytes)
    },
    end: sentence => void stream.write(`\r\x1b[K${sentence}\n`),
    clear: () => void stream.write('\r\x1b[K')
  }
}
