import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createExecutors } from '../../../lib/install/unpack/executors.js'

t.test('uses threads of svc without user rights, and for a journal without a helper', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  t.equal(executors.as(null), await executors.ofJournal(null))
})

t.test('creates a target, and writes the list of changes to a private file', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const directory = t.testdir({})
  const target = await executors.makeTarget(null, join(directory, 'www'), { home: '/nowhere' } as never)
  t.ok(statSync(target).isDirectory())
  const list = join(directory, 'changes')
  await executors.writeChanges(null, list, [Buffer.from('a\n'), Buffer.from('b\n')])
  t.equal(readFileSync(list, 'utf8'), 'a\nb\n')
  t.equal(statSync(list).mode & 0o777, 0o600)
})

t.test('refuses a journal whose user no longer exists', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const helper = { user: 'no-such-user-of-svc', pid: 2 ** 22 + 1, startedAt: '1' }
  await t.rejects(executors.ofJournal(helper as never), { code: /./ })
})
