/* `svc agent --require-signatures` as a process, and a real hub: the agent trusts only the keys in its own file. */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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

/** A fake hub, an agent that trusts `ana` in its file, and a target with an old file. */
async function strictStage(t: Test) {
  const stage = await startAgentStage(t, { requireSignatures: true })
  const ana = aKey('ana')
  const signers = join(stage.home, 'keys/allowed_signers')
  const line = ana.row.public.split('\n')[1]
  const trust = (options = ''): void => writeFileSync(signers, `ana ${options}${line}\n`)
  trust()
  const target = join(stage.sites, 'shop')
  mkdirSync(target)
  writeFileSync(join(target, 'old.html'), 'old')
  let number = 0
  return {
    stage,
    ana,
    signers,
    trust,
    target,
    /** Sends a release up to the order that puts it in place. `between` runs before that. */
    async place(files: Record<string, string>, more: Partial<FakeRelease>, between = async () => {}) {
      const { hub } = stage
      const own = { ...(await packed(files)), deployPath: target, treeSha256: `tree-${++number}` }
      const release = await hub.release('proj_shop', files, { ...own, ...more })
      await hub.answer(hub.order(release, 'prepare', { number }), 'prepared')
      await between()
      return { ended: (answer: 'good' | 'failed') => hub.answer(hub.order(release, 'swap', { number }), answer) }
    }
  }
}

t.test('what an honest hub sends: a release with a list of components, and a promoted one', async t => {
  const { ana, target, place } = await strictStage(t)
  const files = { 'index.html': 'listed' }
  const listed = statementOf('proj_shop', files, { sbomSha256: digestOf('{}') })
  const first = await place(files, { attested: signedBy(listed, ana), offered: { origin: 'upload' } })
  await first.ended('good')
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'listed', 'the list stays at the hub')
  const next = { 'index.html': 'promoted' }
  const scripts = { preDeploy: digestOf('migrate') }
  const promoted = statementOf('proj_staging', next, { alsoFor: ['proj_shop'], scripts, env: ['STAGE'], sequence: 101 })
  const second = await place(next, { attested: signedBy(promoted, ana), offered: { origin: 'source deployment' } })
  await second.ended('good')
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'promoted', 'without the scripts of the other project')
  const replayed = await place(files, { attested: signedBy(listed, ana), offered: { origin: 'upload' } })
  t.match(await replayed.ended('failed'), { error: /it was signed earlier/ })
  const back = await place(files, { attested: signedBy(listed, ana), offered: { origin: 'source deployment' } })
  await back.ended('good')
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'listed', 'a rollback is a matter of the hub')
})

t.test('what happened while a node was offline', async t => {
  const { stage, ana, signers, trust, target, place } = await strictStage(t)
  const files = { 'index.html': 'new' }
  const isUntouched = (name: string) => t.strictSame(readdirSync(target), ['old.html'], `${name}: nothing has changed`)
  const offline = (work: () => void) => async (): Promise<void> => {
    await stage.agent.stop({ wait: true })
    work()
    await stage.restart()
    await stage.hub.connected()
  }
  const good = { attested: signedBy(statementOf('proj_shop', files), ana) }
  const cases: Record<string, [work: () => void, says: RegExp]> = {
    'its owner has removed the key': [() => writeFileSync(signers, ''), /is not a trusted key \(keys\/allowed_signers/],
    'the key has expired': [() => trust('valid-before="20260101Z" '), /has expired at 2026-01-01/],
    'its owner has broken the file': [() => writeFileSync(signers, 'ana\n'), /line 1 of the allowed signers/]
  }
  for (const [name, [work, says]] of Object.entries(cases)) {
    trust()
    const { ended } = await place(files, good, offline(work))
    t.match(await ended('failed'), { error: says }, name)
    isUntouched(name)
  }
  trust()
  const notAfter = new Date(Date.now() + 1500).toISOString()
  const brief = { attested: signedBy(statementOf('proj_shop', files, { notAfter }), ana) }
  const { ended } = await place(files, brief, async () => {
    await offline(() => {})()
    await sleep(1600)
  })
  t.match(await ended('failed'), { error: /The statement has expired/ })
  isUntouched('the statement has expired')
  const again = await place(files, good)
  await again.ended('good')
})

t.test('a signed release with scripts and components is promoted to nodes', { skip }, async t => {
  const { top, hub, agent, shop, target, ana } = await startScene(t)
  const staging = await hub.createProject({ name: 'staging', deployPath: join(top, 'sites/staging') })
  await hub.changeProject(staging.id, { allowClientScripts: true, policy: { signatures: { require: 'refuse' } } })
  await hub.changeProject(shop.id, { policy: { signatures: { require: 'refuse', sbom: 'require' } } })
  await hub.api('POST', '/api/signing-keys', { public: ana.publicText, name: 'ana@laptop' })
  const components = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    components: [{ name: 'log4j-core', version: '2.14.1' }]
  }
  writeFileSync(join(top, 'sbom.json'), JSON.stringify(components))
  const words = ['--sign-key', ana.path, '--sign-for', shop.id, '--sbom', '../sbom.json', '--post', 'touch staged']
  const pushed = await svc(['push', '--project', staging.id, '--out', 'build', ...words], {
    cwd: join(top, 'site'),
    env: { SVC_SERVER_URL: hub.url, SVC_DEPLOY_TOKEN: staging.token }
  })
  t.match(pushed, { code: 0 }, pushed.stderr)
  t.ok(readdirSync(join(top, 'sites/staging')).includes('staged'), 'the signed script was run')

  const admin = { cwd: top, env: { SVC_SERVER_URL: hub.url, SVC_TOKEN: hub.adminToken } }
  const promoted = await svc(['promote', 'staging', 'shop', '--yes'], admin)
  t.match(promoted, { code: 0 }, `${promoted.stdout}${promoted.stderr}`)
  t.strictSame(readdirSync(target).sort(), ['index.html', 'old.html'], 'the script of the other project was not')
  const [arrived] = await agent.api<Deployment[]>('GET', `/api/logs?projectId=${shop.id}`)
  t.match(arrived, { status: 'success', signedBy: [{ name: 'ana@laptop' }] }, 'the node has verified it itself')
  const [release] = await hub.deployments(shop.id)
  t.match(release, { status: 'success', signedBy: [{ name: 'ana@laptop' }] })
  const found = await svc(['search-components', 'log4j', '--json'], admin)
  const items = (JSON.parse(found.stdout) as { components: object[] }).components
  t.match(
    items.filter(each => (each as { projectId: string }).projectId === shop.id),
    [{ deployId: release?.id, version: '2.14.1', target: null, nodes: ['plant-a'], nodeCount: 1 }]
  )
})
