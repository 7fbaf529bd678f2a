/**
 * Transactions that were executed in memory wait here until the redo log contains them. One line is written at a time.
 * All transactions that arrive while it is being synced share the next line.
 *
 * If a line cannot be written, every waiting transaction is refused, because the later ones may depend on the earlier
 * ones.
 */
export type GroupCommit = ReturnType<typeof createGroupCommit>

export interface GroupCommitOptions {
  /** The number of the last transaction that is on the disk. */
  durable: number
  /** Writes a line with the transactions from number `first` on; resolves when it is on the disk. */
  append(first: number, transactions: string[]): Promise<void>
  /**
   * Called when a line could not be written: restores memory to the durable state and returns the error for the
   * callers.
   */
  onFailure(error: unknown): Error
  /** Called when a line is on the disk. */
  onDurable(): void
}

interface Waiting {
  text: string
  resolve: () => void
  reject: (error: Error) => void
}

/**
 * Maximum length in characters at which a line takes further transactions. A line is in memory twice while it is
 * encoded.
 */
const maxLineLength = 1024 * 1024

/** Creates an empty queue. */
export function createGroupCommit(options: GroupCommitOptions) {
  let { durable } = options
  let executed = durable
  let waiting: Waiting[] = []
  let latest = Promise.resolve()
  const turns: Array<() => Promise<void>> = []
  let draining = false

  function takeBatch(): Waiting[] {
    let length = 0
    let count = 0
    while (count < waiting.length && (count === 0 || length < maxLineLength))
      length += waiting[count++]?.text.length ?? 0
    return waiting.splice(0, count)
  }

  async function writeBatch(): Promise<void> {
    const batch = takeBatch()
    try {
      await options.append(
        durable + 1,
        batch.map(({ text }) => text)
      )
    } catch (error) {
      const refused = [...batch, ...waiting]
      waiting = []
      executed = durable
      // Memory is about to equal the disk again, so later calls of settled() need not wait.
      latest = Promise.resolve()
      const reason = options.onFailure(error)
      for (const { reject } of refused) reject(reason)
      return
    }
    durable += batch.length
    for (const { resolve } of batch) resolve()
    options.onDurable()
  }

  async function drain(): Promise<void> {
    while (turns.length > 0 || waiting.length > 0) {
      const turn = turns.shift()
      if (turn !== undefined) await turn()
      else await writeBatch()
    }
    draining = false
  }

  /** Starts a microtask later, so that writes of the same tick share the first line too. */
  function wake(): void {
    if (draining) return
    draining = true
    queueMicrotask(() => void drain())
  }

  return {
    /** The number of the last executed transaction. */
    get executed() {
      return executed
    },

    /** The number of the last transaction that is on the disk. */
    get durable() {
      return durable
    },

    /** Adds a transaction that was just executed; resolves once it is durable. */
    push(text: string): Promise<void> {
      executed++
      latest = new Promise<void>((resolve, reject) => waiting.push({ text, resolve, reject }))
      wake()
      return latest
    },

    /** Resolves once all executed transactions are durable; rejects if they are refused meanwhile. */
    settled: (): Promise<void> => latest,

    /** Runs `work` while no line is being written. */
    between<T>(work: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        turns.push(() => work().then(resolve, reject))
        wake()
      })
    }
  }
}
