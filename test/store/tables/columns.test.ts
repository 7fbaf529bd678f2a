import t from 'tap'
import { columnsOf } from '../../../lib/store/tables/columns.js'
import { aDeployment, aProject, aStore } from '../stage.js'
import { findProject, insertProject } from '../../../lib/store/tables/projects.js'
import { findDeployment, insertDeployment } from '../../../lib/store/tables/deployments.js'

interface Entry {
  id: string
  value: string
}

const audit = columnsOf<Entry & { ok: boolean }>('audit', { id: 'plain', value: 'plain', ok: 'flag' })

t.test('flags are kept as 0, 1 and NULL, lists as JSON text', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject({ postDeployAsync: true, allowClientScripts: null }))
    insertProject(tx, aProject({ id: 'proj_b', postDeployAsync: false, allowClientScripts: false }))
    insertDeployment(tx, aDeployment({ steps: [], hasArtifact: false }))
  })
  t.strictSame(store.all('SELECT postDeployAsync, allowClientScripts FROM projects ORDER BY id'), [
    { postDeployAsync: 1, allowClientScripts: null },
    { postDeployAsync: 0, allowClientScripts: 0 }
  ])
  t.strictSame(store.get('SELECT steps, hasArtifact FROM deployments'), { steps: '[]', hasArtifact: 0 })
  t.match(findProject(store, 'proj_a'), { postDeployAsync: true, allowClientScripts: null })
  t.match(findProject(store, 'proj_b'), { postDeployAsync: false, allowClientScripts: false })
  t.match(findDeployment(store, 'dep_a'), { hasArtifact: false })
})

t.test('decode drops the position, which is no field of the model, and leaves other columns alone', async t => {
  t.strictSame(audit.decode<Entry & { ok: boolean; extra: number }>({ position: 3, id: 'a', value: 'v', ok: 1, extra: 2 }), {
    id: 'a',
    value: 'v',
    ok: true,
    extra: 2
  })
})
