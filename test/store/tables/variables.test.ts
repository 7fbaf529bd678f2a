import t from 'tap'
import type { StoredVariable } from '../../../lib/model/variable.js'
import { deleteProject, insertProject } from '../../../lib/store/tables/projects.js'
import { deleteVariable, listSecrets, listVariables, putVariable } from '../../../lib/store/tables/variables.js'
import { aProject, aStore } from '../stage.js'

const aVariable = (fields: Partial<StoredVariable> = {}): StoredVariable => ({
  projectId: 'proj_a',
  name: 'KEY',
  value: 'sealed',
  secret: true,
  updatedAt: '2026-01-02T03:04:05.678Z',
  ...fields
})

t.test('lists variables by name, and replaces one of the same name', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject())
    for (const name of ['KEY', 'B', 'A']) putVariable(tx, aVariable({ name }))
    putVariable(tx, aVariable({ name: 'B', value: 'plain', secret: false }))
  })
  const [a, b] = [aVariable({ name: 'A' }), aVariable({ name: 'B', value: 'plain', secret: false })]
  t.strictSame(listVariables(store, 'proj_a'), [a, b, aVariable()])
  await store.write(tx => deleteVariable(tx, 'proj_a', 'KEY'))
  t.strictSame(listVariables(store, 'proj_a'), [a, b])
  t.strictSame(listVariables(store, 'proj_b'), [])
})

t.test('lists the secrets of all projects, and removes them with their project', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const projectId of ['proj_b', 'proj_a']) {
      insertProject(tx, aProject({ id: projectId }))
      putVariable(tx, aVariable({ projectId }))
      putVariable(tx, aVariable({ projectId, name: 'PLAIN', secret: false }))
    }
  })
  t.strictSame(listSecrets(store), [aVariable(), aVariable({ projectId: 'proj_b' })])
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.strictSame(listSecrets(store), [aVariable({ projectId: 'proj_b' })])
})
