import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { locateHome } from '../../../lib/config/home.js'
import { takeBack } from '../../../lib/server/cluster/take-back.js'
import { openStore } from '../../../lib/store/durable-store.js'
import { insertDeployment } from '../../../lib/store/tables/deployments.js'
import { insertHubDeployment } from '../../../lib/store/tables/duties.js'
import { insertNode, insertPlacement } from '../../../lib/store/tables/fleet.js'
import { insertProject } from '../../../lib/store/tables/projects.js'
import { aNode } from '../../support/fleet-stage.js'
import { aDeployment, aProject } from '../../store/stage.js'

const id = (letter: string): string => `dep_${letter.repeat(16)}`

t.test('the node gives its places, manifests and images back under the ids of the hub', async t => {
  const directory = t.testdir()
  const homes = ['server', 'node'].map(name => locateHome({ SVC_HOME: join(directory, name) }))
  const [target, nodeHome] = homes as [(typeof homes)[0], (typeof homes)[0]]
  for (const { deployments } of homes) mkdirSync(deployments, { recursive: true })
  const database = await openStore({ directory: target.directory })
  t.teardown(() => database.close())
  const node = await openStore({ directory: nodeHome.directory })
  const projectId = 'proj_a'
  await database.write(tx => {
    insertProject(tx, aProject({ id: projectId }))
    insertNode(tx, aNode('a', { name: 'h1' }))
    const placement = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
    insertPlacement(tx, { ...placement, projectId, nodeId: aNode('a').id, deployPath: '/srv/a' })
    for (const letter of ['a', 'b']) insertDeployment(tx, aDeployment({ id: id(letter), projectId }))
    tx.run('UPDATE deployments SET placed = 1 WHERE id = ?', id('b'))
  })
  // The node tried the second one twice, and was pushed to on its own.
  await node.write(tx => {
    insertProject(tx, aProject({ id: projectId }))
    for (const [letter, hubLetter, from] of [
      ['c', 'a', '[]'],
      ['d', 'b', '[]'],
      ['e', 'b', JSON.stringify([id('c'), 'before'])],
      ['f', null, JSON.stringify([id('e')])]
    ] as const) {
      insertDeployment(tx, aDeployment({ id: id(letter), projectId }))
      if (hubLetter !== null) insertHubDeployment(tx, { id: id(letter), projectId, deployId: id(hubLetter) })
      const order = 'c-ef'.indexOf(letter)
      if (order >= 0) tx.run('UPDATE deployments SET placed = ?, beforeFrom = ? WHERE id = ?', order, from, id(letter))
    }
    // A project that is not placed on this node any more, and that the hub may not know.
    insertProject(tx, aProject({ id: 'proj_b' }))
    insertDeployment(tx, aDeployment({ id: id('z'), projectId: 'proj_b' }))
  })
  await node.close()
  const keptIn = (letter: string): string => `{"path":"a","before":{"kept":"archive:${id(letter)}"}}\n`
  writeFileSync(join(nodeHome.deployments, `${id('e')}.manifest`), keptIn('c'))
  writeFileSync(join(nodeHome.deployments, `${id('e')}.before.zip`), 'images')
  writeFileSync(join(nodeHome.deployments, `${id('e')}.zip`), 'of the node')
  writeFileSync(join(target.deployments, `${id('b')}.zip`), 'of the hub')
  writeFileSync(join(nodeHome.deployments, `${id('f')}.manifest`), keptIn('e'))

  await takeBack({ database, nodeHome, target, hub: 'h1' })
  const rows = database.all('SELECT id, placed, beforeFrom FROM deployments ORDER BY id')
  t.match(rows, [
    { id: id('a'), placed: 0, beforeFrom: '[]' },
    { id: id('b'), placed: 2, beforeFrom: JSON.stringify([id('a'), 'before']) },
    { id: id('d'), placed: null },
    { id: id('f'), placed: 3, beforeFrom: JSON.stringify([id('b')]) }
  ])
  const textOf = (name: string): string => readFileSync(join(target.deployments, name), 'utf8')
  t.equal(textOf(`${id('b')}.manifest`), keptIn('a'))
  t.equal(textOf(`${id('b')}.before.zip`), 'images')
  t.equal(textOf(`${id('b')}.zip`), 'of the hub')
  t.equal(textOf(`${id('f')}.manifest`), keptIn('b'))

  writeFileSync(join(nodeHome.deployments, `${id('g')}.undo`), '')
  await t.rejects(takeBack({ database, nodeHome, target, hub: 'h1' }), { code: 'deployment_running' })
})
