/*
 * A thread that feeds expressions and readers with hostile texts. It counts the texts in shared memory, so that its
 * parent sees where it is stuck, and ends it.
 */
import { workerData } from 'node:worker_threads'
import { hostileTexts, plainHostileTexts, written, type Expression, type HostileText } from './expressions.js'
import { readers, type Reader } from './readers-of-text.js'

/** What a thread reads: from the job `from` on. `place`: the number of the job, and the number of texts so far. */
export interface Jobs {
  jobs: ReadonlyArray<Expression | string>
  from: number
  place: Int32Array
}

const { jobs, from, place } = workerData as Jobs
const maxMatches = 20_000

function runExpression(expression: RegExp, text: string): void {
  let matches = 0
  for (let found = expression.exec(text); found !== null && expression.global; found = expression.exec(text)) {
    if (found[0] === '') expression.lastIndex++
    if (++matches === maxMatches) break
  }
}

/** A text of this length takes a fraction of a millisecond. What takes longer is tried with a long one. */
const shortLength = 4000
const longLength = 500_000
const suspiciousMs = { expression: 0.5, reader: 4 }

/** Whether each of several runs takes longer: one alone may have been interrupted. */
function isSlower(run: () => unknown, limitMs: number): boolean {
  for (let left = 3; left > 0; left--) {
    const begun = performance.now()
    run()
    if (performance.now() - begun <= limitMs) return false
  }
  return true
}

function feed(texts: Iterable<HostileText>, limitMs: number, read: (text: string) => unknown): void {
  for (const text of texts) {
    Atomics.add(place, 1, 1)
    const short = written(text, shortLength)
    if (isSlower(() => read(short), limitMs)) read(written(text, longLength))
  }
}

for (let at = from; at < jobs.length; at++) {
  const job = jobs[at] as Expression | string
  Atomics.store(place, 0, at)
  if (typeof job === 'string') {
    const { begin, read } = readers[job] as Reader
    feed(plainHostileTexts(begin), suspiciousMs.reader, read)
  } else {
    const { source, flags } = job
    feed(hostileTexts(job), suspiciousMs.expression, text => runExpression(new RegExp(source, flags), text))
  }
}
Atomics.store(place, 0, jobs.length)
