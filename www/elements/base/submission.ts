import { Refused } from '../../server/client.js'
import { errorWords, fieldOf } from '../../words/errors.js'

/** A request of a form or a dialog: whether it is in progress, and why the last attempt failed. */
export class Submission {
  isBusy = false
  /** The error of the last attempt, or a sentence for it; null if there is none. */
  refusal: unknown = null
  readonly #onChange: () => void

  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  /** The error as a sentence. */
  get problem(): string | null {
    if (this.refusal === null || typeof this.refusal === 'string') return this.refusal
    return errorWords(this.refusal)
  }

  /** The error in words if the server refused this field. */
  problemOf(field: string): string | undefined {
    return fieldOf(this.refusal) === field ? errorWords(this.refusal) : undefined
  }

  /**
   * The error in words if the server refused the field at this path, for example `policy.gate.after[0].http`. The words
   * contain the label of the field in place of its path.
   */
  problemAt(path: string, label: string): string | undefined {
    const { refusal } = this
    const isThere = refusal instanceof Refused && refusal.field === path
    return isThere ? errorWords(refusal, { [fieldOf(refusal) ?? '']: label }) : undefined
  }

  /** The error in words, unless it is shown with one of these fields. */
  problemBeside(fields: readonly string[]): string | null {
    return fields.some(field => this.problemOf(field) !== undefined) ? null : this.problem
  }

  /** Sets the error; null removes it, for example when a dialog is opened. */
  refuse(refusal: unknown): void {
    this.refusal = refusal
    this.#onChange()
  }

  /** Runs the work. Returns whether it succeeded. */
  async run(work: () => Promise<unknown>): Promise<boolean> {
    this.isBusy = true
    this.refuse(null)
    try {
      await work()
    } catch (error) {
      this.refusal = error
    }
    this.isBusy = false
    this.#onChange()
    return this.refusal === null
  }
}
