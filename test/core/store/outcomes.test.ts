import { join } from 'node:path'
import t from 'tap'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import type { Store } from '../../../lib/core/store/database.js'
import { insertDeployment, updateDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { olderDatabase } from '../../support/older-database.js'
import { createRandom } from '../../support/random.js'
import { aDeployment, aProject, aStore, countedSummaries, summariesOf } from './stage.js'

const at = '2026-01-01T00:00:00.000Z'
const statuses = ['queued', 'running', 'success', 'failed'] as const
const random = createRandom(11)

/** The possible values of a record, in any combination. */
function someFields(): Partial<DeploymentRow> {
  const postDeploy = random.oneOf(['running', 'success', 'failed', 'skipped'] as const)
  return {
    status: random.oneOf(statuses),
    // Some have equal times, so that their order of arrival decides.
    startTime: `2026-01-01T00:00:0${random.below(10)}.000Z`,
    steps: random.oneOf([
      [],
      [{ name: 'extract', status: 'failed', startedAt: at, endedAt: at }],
      [{ name: 'postDeploy', status: postDeploy, startedAt: at, endedAt: at }]
    ]),
    scripts: random.oneOf([
      [],
      [
        {
          step: random.oneOf(['preDeploy', 'postDeploy'] as const),
          source: 'client',
          script: 'a "quoted" one',
          async: random.below(2) === 0
        }
      ]
    ])
  }
}

async function fill(store: Store, deployments: number): Promise<void> {
  await store.write(tx => {
    for (const id of ['a', 'b', 'c', 'd', 'e']) insertProject(tx, aProject({ id, token: id, deployPath: `/srv/${id}` }))
    for (let n = 0; n < deployments; n++) {
      insertDeployment(
        tx,
        aDeployment({ id: `dep_${n}`, projectId: random.oneOf(['a', 'b', 'c', 'd']), ...someFields() })
      )
    }
  })
}

t.test('keeps summaries equal to the counted ones after any change', async t => {
  const store = await aStore(t)
  await fill(store, 60)
  t.same(summariesOf(store), countedSummaries(store))
  for (let step = 0; step < 300; step++) {
    const id = `dep_${random.below(60)}`
    await store.write(tx => {
      if (random.below(10) === 0) tx.run('DELETE FROM deployments WHERE id = ?', id)
      else
        updateDeployment(
          tx,
          id,
          random.oneOf([someFields(), { steps: someFields().steps }, { status: random.oneOf(statuses) }] as Array<
            Partial<DeploymentRow>
          >)
        )
    })
    t.same(summariesOf(store), countedSummaries(store), `step ${step}`)
  }
})

t.test('finds existing broken projects in an upgrade', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await fill(store, 60)
  const before = summariesOf(store)
  await store.close()
  await olderDatabase(join(directory, 'svc.db'))
  const upgraded = await openStore({ directory })
  t.teardown(() => upgraded.close())
  t.same(summariesOf(upgraded), before)
  t.same(summariesOf(upgraded), countedSummaries(upgraded))
  t.not((before as { broken: unknown[] }).broken.length, 0, 'some are broken')
})
