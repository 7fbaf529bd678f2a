import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { createTreeStates } from '../../lib/deploy/tree-state.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { setClock } from '../support/clock.js'

t.test('edited files are searched for at most once an hour', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x' })
  const clock = setClock()
  let searches = 0
  let fault: Error | null = null
  const states = createTreeStates({
    ...stage,
    clock,
    windowOf: () => ({ undo: null, exactBackTo: null }),
    trees: { read: stage.deployer.ownedTree },
    async searchDrift({ id }) {
      searches++
      if (fault !== null) throw fault
      await states.drifted(id, searches)
    }
  })
  const summary = (drift: boolean) => states.summary({ projectId: project.id, drift, signal: never })
  t.match(await summary(false), { files: 1, drift: null })
  t.match(await summary(true), { drift: { count: 1 } })
  clock.advance(59 * 60_000)
  t.match(await summary(true), { drift: { count: 1 } })
  clock.advance(2 * 60_000)
  t.match(await summary(false), { drift: { count: 1 } }, 'only if it was asked for')
  t.match(await summary(true), { drift: { count: 2 } })
  clock.advance(61 * 60_000)
  fault = new Refusal('conflict', 'plan_busy', 'Another comparison is in progress')
  t.match(await summary(true), { drift: { count: 2 } }, 'the earlier result stays')
  fault = new Error('a bug')
  await t.rejects(summary(true), fault)
  states.forget(project.id)
  t.match(await summary(false), { drift: null })
})

t.test('a project without files has an empty summary, and an unknown one is refused', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const ask = (projectId: string) => stage.deployer.treeSummary({ projectId, drift: true, signal: never })
  t.strictSame(await ask(project.id), {
    success: true,
    baseline: 'none',
    files: 0,
    bytes: 0,
    liveId: null,
    treeSha256: null,
    verified: null,
    drift: null,
    undo: null,
    exactBackTo: null
  })
  await t.rejects(ask('proj_x'), { code: 'not_found' })
})
