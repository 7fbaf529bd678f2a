import t from 'tap'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { writeFileSync } from 'node:fs'
import { type ComparerNeeds, createComparer } from '../../lib/deploy/comparer.js'
import type { Compared } from '../../lib/core/install/compare.js'
import type { Outcome } from '../../lib/core/install/unpack/extract-threads.js'
import { systemClock } from '../../lib/base/clock.js'
import { Refusal } from '../../lib/base/errors.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { aProject } from '../core/store/stage.js'
import { treeBody } from '../support/planned.js'
import { deployStage, never } from '../support/deploy-stage.js'

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
  const ended: number[] = []
  const gone = new AbortController()
  const all = Array.from({ length: 5 }, async (_, i) => {
    const one = comparer.compare(project, i === 2 ? { ...asked, signal: gone.signal } : asked)
    return one.finally(() => ended.push(i))
  })
  await t.rejects(comparer.compare(project, asked), { kind: 'conflict', code: 'plan_busy' }, 'five is the limit')
  gone.abort(new Error('gone away'))
  await t.rejects(all[2] as Promise<unknown>, { message: 'gone away' }, 'a caller that left loses its turn')
  const { compared, baseline } = await (all[0] as (typeof all)[0])
  await Promise.all([all[1], all[3], all[4]])
  t.same(ended, [0, 1, 2, 3, 4], 'in the order of arrival')
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

t.test('projects whose comparisons are slow share one place', async t => {
  const going: string[] = []
  const ends: Array<() => void> = []
  const executor = {
    async run(job: { compare: { target: string } }): Promise<Outcome> {
      going.push(job.compare.target)
      await new Promise<void>(resolve => ends.push(resolve))
      return { kind: 'compared', compared: { checks: [] as Compared['checks'] } as Compared }
    },
    isStuck: () => false
  }
  const executors = { comparing: () => executor } as unknown as ComparerNeeds['executors']
  const home = { directory: '/nowhere', deployments: '/nowhere', tmp: '/nowhere' }
  const comparer = createComparer({ home, clock: systemClock, executors, trees, slowMs: 0 })
  const compare = (name: string) =>
    comparer.compare(aProject({ id: name, deployPath: name }), { tree: Buffer.from(''), listed: 0, signal })
  const endAll = async (all: Array<Promise<unknown>>): Promise<void> => {
    while (ends.length < all.length) await setImmediate()
    ends.splice(0).forEach(end => end())
    await Promise.all(all)
  }
  await endAll([compare('a'), compare('b')])
  t.strictSame(going.splice(0), ['a', 'b'], 'at first nobody knows')
  const again = [compare('a'), compare('b'), compare('c')]
  while (ends.length < 2) await setImmediate()
  t.strictSame(going.splice(0).sort(), ['a', 'c'], 'one of them waits, and a third goes on')
  ends.splice(0).forEach(end => end())
  while (ends.length < 1) await setImmediate()
  t.strictSame(going, ['b'])
  ends.splice(0).forEach(end => end())
  await Promise.all(again)
})

t.test('a target that cannot be read is a problem, not an empty list', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'one' })
  writeFileSync(`${stage.directory}/file`, 'x')
  await stage.change(project, { deployPath: `${stage.directory}/file` })
  const report = await stage.deployer.drift({ projectId: project.id, isFull: false, signal: never })
  t.match(report, { success: true, partial: true, problem: /is not a directory$/, count: 0, files: [] })
})
