import { existsSync, writeFileSync } from 'node:fs'
import t from 'tap'
import type { Executor, Outcome } from '../../../lib/install/unpack/extract-threads.js'
import { journalPathOf, putBack, removeJournal } from '../../../lib/install/unpack/recover-job.js'

const { signal } = new AbortController()
const job = { journalPath: '/nowhere/dep_a.undo', placed: 'revert' } as const

function executorOf(outcome: Outcome): Executor {
  return { run: async () => outcome, isStuck: () => false }
}

t.test('resolves with what a recovery did, and throws if it could not be done', async t => {
  const recovered: Outcome = { kind: 'recovered', recovery: 'put back', displaced: null }
  t.strictSame(await putBack(executorOf(recovered), job, signal), recovered)
  const error = new Error('EIO')
  await t.rejects(putBack(executorOf({ kind: 'failed', error }), job, signal), error)
  for (const kind of ['died', 'stuck'] as const) {
    await t.rejects(putBack(executorOf({ kind }), job, signal), { message: /not put back yet/ })
  }
})

t.test('removes a journal, also one that does not exist', async t => {
  const home = { deployments: t.testdir() }
  writeFileSync(journalPathOf(home, 'dep_a'), '')
  await removeJournal(home, 'dep_a')
  await removeJournal(home, 'dep_a')
  t.notOk(existsSync(journalPathOf(home, 'dep_a')))
})
