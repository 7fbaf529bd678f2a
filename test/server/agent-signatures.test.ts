/* `svc agent --require-signatures` as a process, and a real hub: the agent trusts only the keys in its own file. */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sha256 } from '../../lib/base/digests.js'
import type { Project } from '../../lib/model/project.js'
import type { Deployment } from '../../lib/model/deployment.js'
import { type AgentProcess, startAgentProcess } from '../support/agent-process.js'
import { startAgentStage } from '../support/agent-stage.js'
import type { FakeRelease } from '../support/fake-hub.js'
import { type Serving, startServe } from '../support/serve-process.js'
import { aKey, digestOf, signedBy, statementOf } from '../support/signed-releases.js'
import { missing, sshKey } from '../support/signing-tools.js'
import { type Ended, svc } from '../support/svc.js'
import { zipOf } from '../support/zips.js'

const skip = missing('ssh-keygen')

interface Scene {
  top: string
  hub: Serving
  agent: AgentProcess
  shop: Project
  /** The target of the project on the node. */
  target: string
  ana: { path: string; publicText: string }
  push(words?: readonly string[]): Promise<Ended>
}

async function startScene(t: Test): Promise<Scene> {
  const top = t.testdir({ site: { build: { 'index.html': 'one' } }, sites: { a: { 'old.html': 'old' } }, keys: {} })
  const ana = sshKey(join(top, 'keys'), 'ana')
  const hub = await startServe(t, top)
  mkdirSync(join(top, 'agent-home/keys'), { recursive: true, mode: 0o700 })
  writeFileSync(join(top, 'agent-home/keys/allowed_signers'), `ana@laptop ${ana.publicText}`)
  const { token } = await hub.api<{ token: string }>('POST', '/api/enrollments', {})
  const words = ['--hub', hub.url, '--name', 'plant-a', '--require-signatures']
  const agent = await startAgentProcess(t, top, words, { env: { SVC_ENROLL_TOKEN: token } })
  await agent.says(/Connected to the hub/)
  const shop = await hub.createProject({ name: 'shop', deployPath: join(top, 'sites/hub') })
  const target = join(top, 'sites/a')
  await hub.api('PATCH', `/api/projects/${shop.id}/placements`, { add: [{ node: 'plant-a', deployPath: target }] })
  await hub.changeProject(shop.id, { policy: { signatures: { require: 'off' } } })
  const env = { SVC_SERVER_URL: hub.url, SVC_DEPLOY_TOKEN: shop.token }
  const push = (words: readonly string[] = []): Promise<Ended> =>
    svc(['push', '--project', shop.id, '--out', 'build', ...words], { cwd: join(top, 'site'), env })
  return { top, hub, agent, shop, target, ana, push }
}

/** Returns the archive of files with the permissions that `statementOf` states. */
async function packed(files: Record<string, string>) {
  const archive = await zipOf(files)
  return { archive, archiveSha256: sha256(archive).toString('hex'), archiveBytes: archive.length }
}

/** Says that a push did not reach the node. */
async function isRefused(t: Test, { agent, shop, target }: Scene, ended: Ended, sentence: RegExp): Promise<void> {
  t.match(ended, { code: 1 }, 'the push fails')
  t.match(`${ended.stdout}${ended.stderr}`, sentence, 'it says why')
  t.strictSame(readdirSync(target), ['old.html'], 'the target of the node is as it was')
  t.strictSame(await agent.api<Deployment[]>('GET', `/api/logs?projectId=${shop.id}`), [], 'nothing was queued there')
}

t.test('a node takes only what its own keys have signed', { skip }, async t => {
  const scene = await startScene(t)
  const { top, hub, agent, shop, target, ana, push } = scene
  await isRefused(t, scene, await push(), /This server takes only releases that 1 trusted key signed/)
  const mallory = sshKey(join(top, 'keys'), 'mallory')
  await hub.api('POST', '/api/signing-keys', { public: mallory.publicText, name: 'mallory' })
  await isRefused(t, scene, await push(['--sign-key', mallory.path]), /is not a trusted key/)

  const signed = await push(['--sign-key', ana.path])
  t.match(signed, { code: 0 }, signed.stderr)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
  const arrived = await agent.api<Deployment[]>('GET', `/api/logs?projectId=${shop.id}`)
  t.match(arrived, [{ status: 'success', signedBy: [{ name: 'ana@laptop' }] }], 'the node has verified it itself')

  writeFileSync(join(top, 'site/build/index.html'), 'two')
  t.match(await push(['--sign-key', ana.path]), { code: 0 })
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'two')
  const good = (await hub.deployments(shop.id)).filter(({ status }) => status === 'success').at(-1) as Deployment
  const admin = { cwd: top, env: { SVC_SERVER_URL: hub.url, SVC_TOKEN: hub.adminToken } }
  const back = await svc(['rollback', shop.id, '--to', good.id, '--yes'], admin)
  t.match(back, { code: 0 }, `${back.stdout}${back.stderr}`)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one', 'a signed release is rolled back to')
})

t.test('a hub that is not honest: what it strips, swaps or adds is refused', async t => {
  const stage = await startAgentStage(t, { requireSignatures: true })
  const { hub } = stage
  const [ana, mallory] = [aKey('ana'), aKey('mallory')]
  writeFileSync(join(stage.home, 'keys/allowed_signers'), `ana ${ana.row.public.split('\n')[1]}\n`)
  const target = join(stage.sites, 'shop')
  mkdirSync(target)
  writeFileSync(join(target, 'old.html'), 'old')
  const files = { 'index.html': 'new' }
  const good = signedBy(statementOf('proj_shop', files), ana)
  const other = { 'index.html': 'evil' }
  const cases: Record<string, { files?: Record<string, string>; more: Partial<FakeRelease>; says: RegExp }> = {
    'it strips the statement': { more: {}, says: /takes only releases that 1 trusted key signed/ },
    'it strips the statement and calls the release an earlier one': {
      more: { offered: { origin: 'source deployment' } },
      says: /takes only releases that 1 trusted key signed/
    },
    'it strips the signatures': { more: { attested: { ...good, signatures: [] } }, says: /signed/ },
    'it signs itself': {
      more: { attested: signedBy(statementOf('proj_shop', files), mallory) },
      says: /is not a trusted key \(keys\/allowed_signers/
    },
    'it swaps the statement for that of another project': {
      more: { attested: signedBy(statementOf('proj_other', files), ana) },
      says: /was signed for project proj_other/
    },
    'it swaps the files': {
      files: other,
      more: { attested: good },
      says: /does not contain the files that were signed/
    },
    'it adds a script': {
      more: { attested: good, offered: { origin: 'upload', preDeploy: `touch '${join(stage.sites, 'traced')}'` } },
      says: /the script preDeploy is not the one that was signed/
    },
    'it adds a variable': {
      more: { attested: good, clientEnv: { EVIL: '1' } },
      says: /the variable EVIL was not signed/
    },
    'it adds a variable to an earlier release': {
      more: { attested: good, clientEnv: { EVIL: '1' }, offered: { origin: 'source deployment' } },
      says: /the variable EVIL was not signed/
    }
  }
  let number = 0
  for (const [name, { files: given = files, more, says }] of Object.entries(cases)) {
    const release = await hub.release('proj_shop', given, {
      ...(await packed(given)),
      deployPath: target,
      treeSha256: digestOf(name),
      project: { allowClientScripts: true, allowedEnv: ['EVIL'] },
      ...more
    })
    await hub.answer(hub.order(release, 'prepare', { number: ++number }), 'prepared')
    const answer = await hub.answer(hub.order(release, 'swap', { number }), 'failed')
    t.match(answer.error, says, name)
    t.strictSame(readdirSync(target), ['old.html'], `${name}: the target is as it was`)
    t.strictSame(readdirSync(stage.sites), ['shop'], `${name}: no script was run`)
  }
  const honest = { ...(await packed(files)), deployPath: target, treeSha256: 'honest', attested: good }
  const release = await hub.release('proj_shop', files, honest)
  await hub.answer(hub.order(release, 'prepare', { number: ++number }), 'prepared')
  await hub.answer(hub.order(release, 'swap', { number }), 'good')
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'new')
})
