import { createPublicKey, verify } from 'node:crypto'
import t from 'tap'
import { type ReleaseDocument, releaseText } from '../../../lib/model/fleet-wire.js'
import { insertDeployment } from '../../../lib/store/tables/deployments.js'
import { updateProject } from '../../../lib/store/tables/projects.js'
import { aDeployment } from '../../store/stage.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { openFleet } from '../../support/fleet-stage.js'

const node = { nodeId: 'node_a', session: 'the-session', counter: 7, protocol: 2 }

t.test('describes a release for a node, with what the client has sent, signed', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store } = stage
  await store.write(tx => insertDeployment(tx, aDeployment({ message: 'a message' })))
  const offer = { offered: { origin: 'upload' as const, postDeploy: 'echo on' }, clientEnv: { STAGE: 'secret-text' } }
  const sealed = await hub.sealOffer('dep_a', offer)
  t.notMatch(sealed, 'secret-text')
  await beginRollout(stage, {}, 'proj_a', { sealed })
  const { json, signature } = await hub.agents.document(node, 'dep_a')
  t.match(JSON.parse(json), {
    deployId: 'dep_a',
    projectName: 'Site',
    deployPath: '/srv/a',
    archiveSha256: 'archive',
    variables: [{ name: 'MODE', value: 'fast' }],
    message: 'a message',
    ...offer
  })
  t.notOk('token' in JSON.parse(json).project, 'no deploy token')
  const x = Buffer.from((await hub.key.current()).publicKey, 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  const isSigned = (text: string, given = signature) =>
    verify(null, Buffer.from(text), key, Buffer.from(given, 'base64'))
  t.ok(isSigned(releaseText(node, json)))
  for (const other of [{ session: 'another' }, { counter: 8 }, { nodeId: 'node_b' }])
    t.notOk(isSigned(releaseText({ ...node, ...other }, json)), 'it cannot be replayed')
  const earlier = await hub.agents.document({ ...node, protocol: 1 }, 'dep_a')
  t.ok(isSigned(`svc-agent-release 1\nnode_a\nthe-session\n${earlier.json}\n`, earlier.signature))
})

t.test('gives a node only releases of projects that are placed on it', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub } = stage
  t.equal(await hub.sealOffer('dep_a', { offered: { origin: 'upload' }, clientEnv: {} }), null, 'nothing to encrypt')
  await beginRollout(stage)
  t.equal(hub.agents.archiveOf('node_a', 'archive'), 'dep_a')
  for (const unknown of [
    () => hub.agents.archiveOf('node_a', 'another'),
    () => hub.agents.archiveOf('node_b', 'archive')
  ])
    t.throws(unknown, { code: 'not_found' })
  await t.rejects(hub.agents.document({ ...node, nodeId: 'node_b' }, 'dep_a'), { code: 'not_found' })
  await t.rejects(hub.agents.document(node, 'dep_b'), { code: 'not_found' })
})

t.test('says whether clients may send scripts, by the project or by the setting', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store, mayScripts } = stage
  await beginRollout(stage)
  const said = async (): Promise<unknown> =>
    (JSON.parse((await hub.agents.document(node, 'dep_a')).json) as ReleaseDocument).project['allowClientScripts']
  const own = (allowClientScripts: boolean | null) =>
    store.write(tx => updateProject(tx, 'proj_a', { allowClientScripts }))
  for (const [project, setting, expected] of [
    [null, true, true],
    [null, false, false],
    [true, false, true],
    [false, true, false]
  ] as const) {
    await own(project)
    mayScripts.value = setting
    t.equal(await said(), expected, `${project}, ${setting}`)
  }
})
