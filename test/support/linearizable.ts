/*
 * Checks histories of a register for linearizability: whether each operation can have happened at one moment between its
 * call and its return (Herlihy and Wing 1990), by the search of Wing and Gong with the cache of Lowe.
 *
 * Every value is written once, so of an operation whose outcome is unknown it can be told whether it happened: it did if
 * somebody saw its value, and then before that returned; if nobody did, it makes no difference, and is left out.
 */

/** An operation on one register. Times are of one clock. */
export interface RegisterOperation {
  kind: 'read' | 'write' | 'swap'
  call: number
  /** When it returned; null: its outcome is unknown. */
  end: number | null
  /** The value that was written, or that a swap writes if the register has `from`. */
  value: string | null
  from?: string | null
  /** The value that a read returned, or that a swap found. */
  seen?: string | null
}

interface Known extends RegisterOperation {
  end: number
}

interface Entry {
  operation: Known
  id: number
  isCall: boolean
  /** The entry of the return, for a call. */
  match: Entry | null
  before: Entry
  after: Entry | null
}

/** Returns null if the history of a register that began with `initial` is linearizable; else why it is not. */
export function faultOfHistory(history: readonly RegisterOperation[], initial: string | null): string | null {
  const operations = withKnownOutcome(history).sort((a, b) => a.call - b.call)
  const written = new Set([initial, ...operations.flatMap(({ kind, value }) => (kind === 'read' ? [] : [value]))])
  const nowhere = operations.find(({ seen }) => seen !== undefined && !written.has(seen))
  if (nowhere !== undefined) return `"${nowhere.seen}" was read, and nobody wrote it`
  return search(operations, initial)
}

function withKnownOutcome(history: readonly RegisterOperation[]): Known[] {
  /** When a value was first seen by an operation that returned. */
  const seenAt = new Map<string | null, number>()
  const see = (value: string | null, end: number) => seenAt.set(value, Math.min(end, seenAt.get(value) ?? Infinity))
  for (const { end, seen } of history) if (end !== null && seen !== undefined) see(seen, end)
  return history.flatMap(operation => {
    if (operation.end !== null) return [operation as Known]
    const end = operation.kind === 'read' ? undefined : seenAt.get(operation.value)
    if (end === undefined) return []
    // A swap that took place found what it was looking for.
    return [{ ...operation, end, ...(operation.kind === 'swap' && { seen: operation.from ?? null }) }]
  })
}

/** Returns the value after the operation; undefined if it cannot have happened with this value. */
function step(value: string | null, { kind, value: written, from, seen }: Known): string | null | undefined {
  if (kind === 'write') return written
  if (seen !== value) return undefined
  return kind === 'swap' && from === value ? written : value
}

function search(operations: readonly Known[], initial: string | null): string | null {
  const head = listOf(operations)
  const done = new Uint8Array(operations.length)
  const known = new Set<string>()
  const path: Array<{ entry: Entry; value: string | null }> = []
  let value = initial
  let low = 0
  let high = -1
  let furthest = 0

  /** The operations that have happened are all below `low`, and some up to `high`. */
  function keyOf(next: string | null): string {
    return `${low} ${done.subarray(low, high + 1).join('')} ${next}`
  }

  let entry = head.after
  while (head.after !== null) {
    if (entry === null) throw new Error('a call has no return')
    if (!entry.isCall) {
      const last = path.pop()
      if (last === undefined) return describe(operations, furthest)
      put(last.entry)
      value = last.value
      done[last.entry.id] = 0
      low = Math.min(low, last.entry.id)
      while (high >= 0 && done[high] === 0) high--
      entry = last.entry.after
      continue
    }
    const next = step(value, entry.operation)
    if (next !== undefined) {
      const [lowBefore, highBefore] = [low, high]
      done[entry.id] = 1
      high = Math.max(high, entry.id)
      while (done[low] === 1) low++
      const key = keyOf(next)
      if (!known.has(key)) {
        known.add(key)
        path.push({ entry, value })
        furthest = Math.max(furthest, path.length)
        value = next
        take(entry)
        entry = head.after
        continue
      }
      done[entry.id] = 0
      ;[low, high] = [lowBefore, highBefore]
    }
    entry = entry.after
  }
  return null
}

function describe(operations: readonly Known[], furthest: number): string {
  const around = operations.slice(Math.max(0, furthest - 4), furthest + 4)
  return `no order explains the operations around number ${furthest} of ${operations.length}: ${JSON.stringify(around)}`
}

/** Returns the head of a list of the calls and returns, in the order of time. A return comes after calls of its moment. */
function listOf(operations: readonly Known[]): Entry {
  const head: Entry = {
    operation: null as never,
    id: -1,
    isCall: false,
    match: null,
    before: null as never,
    after: null
  }
  const entries = operations.flatMap((operation, id) => {
    const end: Entry = { operation, id, isCall: false, match: null, before: head, after: null }
    return [{ ...end, isCall: true, match: end }, end]
  })
  const timeOf = ({ isCall, operation }: Entry) => (isCall ? operation.call : operation.end)
  entries.sort((a, b) => timeOf(a) - timeOf(b) || Number(b.isCall) - Number(a.isCall))
  let last = head
  for (const entry of entries) {
    last.after = entry
    entry.before = last
    last = entry
  }
  return head
}

/** Takes an operation out of the list, both its call and its return. */
function take(call: Entry): void {
  for (const entry of [call, call.match as Entry]) {
    entry.before.after = entry.after
    if (entry.after !== null) entry.after.before = entry.before
  }
}

/** Puts an operation back where it was. */
function put(call: Entry): void {
  for (const entry of [call.match as Entry, call]) {
    entry.before.after = entry
    if (entry.after !== null) entry.after.before = entry
  }
}
