import t from 'tap'
import { join } from 'node:path'
import { createComparer, type ComparerNeeds } from '../../lib/deploy/comparer.js'
import type { Outcome } from '../../lib/install/unpack/extract-threads.js'
import { systemClock } from '../../lib/base/clock.js'
import { Refusal } from '../../lib/base/refusal.js'
import { createExecutors } from '../../lib/install/unpack/executors.js'
import { aProject } from '../store/stage.js'
import { treeBody } from '../support/planned.js'

const { signal } = new AbortController()
const trees: ComparerNeeds['trees'] = { read: async () => ({ baseline: 'building' }) }

t.test('compares, one comparison per project at a time', async t => {
  const directory = t.testdir({ site: { a: 'x' }, target: { a: 'y' }, home: {} })
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const home = { directory: join(directory, 'home'), deployments: directory, tmp: directory }
  const comparer = createComparer({ home, clock: systemClock, executors, trees })
  const project = aProject({ deployPath: join(directory, 'target') })
  const asked = { tree: await treeBody(join(directory, 'site')), listed: 10, signal }
  const first = comparer.compare(project, asked)
  await t.rejects(comparer.compare(project, asked), { kind: 'conflict', code: 'plan_busy' })
  const { compared, baseline } = await first
  t.equal(baseline, 'building')
  t.match(compared, { counts: { changed: 1 }, paths: { changed: ['a'] } })
  t.match(await comparer.compare(project, asked), { compared: { counts: { changed: 1 } } }, 'the project is free again')
})

t.test('passes on how a comparison failed', async t => {
  const refusal = new Refusal('invalid', 'invalid_tree', 'The tree is invalid')
  const outcomes: Outcome[] = [{ kind: 'failed', error: refusal }, { kind: 'died' }, { kind: 'stuck' }]
  const executor = { run: async () => outcomes.shift() as Outcome, isStuck: () => false }
  const executors = { comparing: () => executor } as unknown as ComparerNeeds['executors']
  const home = { directory: '/nowhere', deployments: '/nowhere', tmp: '/nowhere' }
  const comparer = createComparer({ home, clock: systemClock, executors, trees })
  const compare = () => comparer.compare(aProject({}), { tree: Buffer.from(''), listed: 0, signal })
  await t.rejects(compare(), refusal)
  await t.rejects(compare(), { message: 'ended without an answer: died' })
  await t.rejects(compare(), { message: 'ended without an answer: stuck' })
})
