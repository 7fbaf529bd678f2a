/**
 * Transactions that have run in memory wait here until the redo log holds them. One line is written at a time; all that
 * come while it is being synced share the next one.
 *
 * A line that cannot be written refuses every transaction that waits, since those behind it may rest on it.
 */
export interface GroupCommit {
  /** Numbers: of the last transaction that ran, and of the last that is on the disk. */
  readonly executed: number
  readonly durable: number
  /** Takes a transaction that has just run; resolves once it is durable. */
  push(text: string): Promise<void>
  /** Resolves once all that have run are durable; rejects when they are refused meanwhile. */
  settled(): Promise<void>
  /** Runs `work` while no line is being written. */
  between<T>(work: () => Promise<T>): Promise<T>
}

export interface GroupCommitOptions {
  /** The number of the last transaction that is on the disk. */
  durable: number
  /** Writes the line of the transactions from number `first` on; resolves when it is on the disk. */
  append(first: number, transactions: string[]): Promise<void>
  /** A line could not be written: puts memory back to what is durable, and gives what the callers are told. */
  onFailure(error: unknown): Error
  /** A line is on the disk. */
  onDurable(): void
}

interface Waiting {
  text: string
  resolve: () => void
  reject: (error: Error) => void
}

/** A line takes no further transactions beyond this, in characters: it is held twice while it is encoded. */
const maxLineLength = 1024 * 1024

/** Begins with nothing waiting. */
export function createGroupCommit(options: GroupCommitOptions): GroupCommit {
  let { durable } = options
  let executed = durable
  let waiting: Waiting[] = []
  let latest = Promise.resolve()
  let turns: Array<() => Promise<void>> = []
  let draining = false

  function takeBatch(): Waiting[] {
    let length = 0
    let count = 0
    while (count < waiting.length && (count === 0 || length < maxLineLength)) length += waiting[count++]?.text.length ?? 0
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
      // Memory is what the disk holds again: who asks from here on has nothing to wait for.
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

  /** A microtask later, so that those who write in the same tick share the first line too. */
  function wake(): void {
    if (draining) return
    draining = true
    queueMicrotask(() => void drain())
  }

  return {
    get executed() {
      return executed
    },
    get durable() {
      return durable
    },
    push(text) {
      executed++
      latest = new Promise<void>((resolve, reject) => waiting.push({ text, resolve, reject }))
      wake()
      return latest
    },
    settled: () => latest,
    between(work) {
      return new Promise((resolve, reject) => {
        turns.push(() => work().then(resolve, reject))
        wake()
      })
    }
  }
}
