import t from 'tap'
import { createGroupCommit, type GroupCommit } from '../../../lib/core/store/group-commit.js'

interface Line {
  first: number
  transactions: string[]
}

/** Returns a group commit whose disk takes one turn of the event loop and refuses lines that contain the text `bad`. */
function aGroup(): { commits: GroupCommit; lines: Line[] } {
  const lines: Line[] = []
  const commits = createGroupCommit({
    durable: 10,
    async append(first, transactions) {
      await new Promise(setImmediate)
      if (transactions.includes('bad')) throw new Error('the disk refused')
      lines.push({ first, transactions })
    },
    onFailure: error => error as Error,
    onDurable: () => {}
  })
  return { commits, lines }
}

t.test('writes one line for a tick, and one for all writes that arrive meanwhile', async t => {
  const { commits, lines } = aGroup()
  const first = [commits.push('a'), commits.push('b')]
  await Promise.resolve().then(() => {})
  const second = [commits.push('c'), commits.push('d'), commits.push('e')]
  t.equal(commits.executed, 15)
  t.equal(commits.durable, 10)
  await Promise.all([...first, ...second])
  t.same(lines, [
    { first: 11, transactions: ['a', 'b'] },
    { first: 13, transactions: ['c', 'd', 'e'] }
  ])
  t.equal(commits.durable, 15)
})

t.test('32 writers in a loop need little more than one line for 32 writes', async t => {
  const { commits, lines } = aGroup()
  const writer = async () => {
    for (let n = 0; n < 20; n++) await commits.push('x')
  }
  await Promise.all(Array.from({ length: 32 }, writer))
  t.equal(commits.durable, 10 + 640)
  t.ok(lines.length <= 40, `${lines.length} lines`)
})

t.test('refuses all waiting writes after a failed line and reuses their numbers', async t => {
  const { commits, lines } = aGroup()
  const outcomes = Promise.allSettled([commits.push('good'), new Promise(setImmediate).then(() => commits.push('bad'))])
  await commits.settled()
  const late = Promise.allSettled([commits.push('bad'), commits.push('behind it')])
  t.same(
    (await late).map(({ status }) => status),
    ['rejected', 'rejected']
  )
  await outcomes
  t.equal(commits.executed, commits.durable)
  await commits.push('next')
  t.same(lines.at(-1), { first: commits.durable, transactions: ['next'] })
})

t.test('splits a long queue into lines of limited length', async t => {
  const { commits, lines } = aGroup()
  const text = 'x'.repeat(400_000)
  await Promise.all(Array.from({ length: 10 }, () => commits.push(text)))
  t.same(
    lines.map(({ transactions }) => transactions.length),
    [3, 3, 3, 1]
  )
})

t.test('waits in settled for all executed writes, and runs between while no line is written', async t => {
  const { commits, lines } = aGroup()
  await commits.settled()
  void commits.push('a')
  const seen: number[] = []
  const turn = commits.between(async () => seen.push(lines.length))
  void commits.push('b')
  await commits.settled()
  await turn
  t.equal(lines.flatMap(({ transactions }) => transactions).length, 2)
  t.equal(seen.length, 1)
  await t.rejects(
    commits.between(() => Promise.reject(new Error('no'))),
    /no/
  )
  await commits.push('c')
})
