import type { Emulator } from '../../terminal/emulator.js'
import { textIn } from '../../terminal/selection.js'

/** Reads new output aloud. */
export interface TerminalSpeaker {
  /** Call this after output was written. */
  noticed(): void
  /** Skips the current contents of the screen. */
  skip(): void
}

const pauseMs = 700
/** Maximum number of lines to read. */
const maxLines = 20

/** Waits for a pause in the output, then puts its last lines, including the cursor's, into a live region. */
export function createTerminalSpeaker(emulator: Emulator, region: () => HTMLElement | null): TerminalSpeaker {
  let timer: ReturnType<typeof setTimeout> | undefined
  let said = 0
  let lastSaid = ''

  const cursorLine = (): number => emulator.firstLine + emulator.historyLength + emulator.cursor.y
  const speak = (): void => {
    timer = undefined
    const end = cursorLine()
    const from = Math.max(emulator.firstLine, Math.min(said, end), end - maxLines + 1)
    const range = { from: { line: from, column: 0 }, to: { line: end, column: emulator.columns } }
    const lines = textIn(emulator, range)
      .split('\n')
      .filter(line => line.trim() !== '')
    said = end
    const text = lines.join('\n')
    if (text !== '' && text !== lastSaid) region()?.replaceChildren(...lines.map(spoken))
    lastSaid = text
  }

  return {
    noticed() {
      timer ??= setTimeout(speak, pauseMs)
    },
    skip() {
      clearTimeout(timer)
      timer = undefined
      said = cursorLine()
    }
  }
}

function spoken(line: string): HTMLElement {
  const node = document.createElement('div')
  node.textContent = line
  return node
}
