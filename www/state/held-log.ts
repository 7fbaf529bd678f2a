import { createHeldLines, type HeldLimits, type HeldLines } from './held-lines.js'
import { Announcer, type LogLine } from './log-text.js'

/** A log of which some windows are loaded. Subclasses read the windows; users see a LogText. */
export abstract class HeldLog extends Announcer {
  epoch = 0
  arrivedLines = 0
  isAtEnd = true
  protected readonly held: HeldLines

  constructor(limits?: HeldLimits) {
    super()
    this.held = createHeldLines(limits)
  }

  get lines(): readonly LogLine[] {
    return this.held.lines
  }

  get firstNumber(): number {
    return this.held.firstNumber
  }

  /** Drops all lines before the lines of another place are loaded. */
  protected replace(): void {
    this.held.clear()
    this.epoch++
  }
}
