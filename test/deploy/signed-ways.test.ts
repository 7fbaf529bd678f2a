/* Signed releases by other ways than a push: promotion, repair, exact ways back, and deployments that wait. */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { systemClock } from '../../lib/base/clock.js'
import { insertSigningKey, updateSigningKey } from '../../lib/core/store/tables/signing-keys.js'
import type { Run } from '../../lib/deploy/admission.js'
import type { DeployNeeds } from '../../lib/deploy/needs.js'
import type { Actor } from '../../lib/model/audit.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { createTreeDigest } from '../../lib/model/manifest.js'
import { defaultApproval, defaultSignatures, type SignaturePolicy } from '../../lib/model/policy.js'
import type { Statement } from '../../lib/model/statement.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { type EntryPlan, makeZip } from '../support/make-zip.js'
import { aKey, digestOf, signedBy, statementOf } from '../support/signed-releases.js'
import { zipOf } from '../support/zips.js'
import { inTime, until } from '../support/until.js'

const files = { 'index.html': 'new', 'app.js': 'let x' }
const before = { 'index.html': 'old' }
const list = JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components: [{ name: 'x', version: '1' }] })

async function scene(t: Test, policy: Partial<SignaturePolicy> = {}, needs: Partial<DeployNeeds> = {}) {
  const stage = await deployStage(t, undefined, {}, needs)
  const ana = aKey('ana')
  await stage.store.write(tx => insertSigningKey(tx, ana.row))
  const shop = await stage.addProject({ name: 'shop' })
  await stage.deploy(shop, before)
  const ask = async (more: Partial<SignaturePolicy>): Promise<void> => {
    shop.policy = { signatures: { ...defaultSignatures, require: 'refuse', ...more } }
    await stage.change(shop, { policy: shop.policy })
  }
  await ask(policy)
  return {
    stage,
    shop,
    ana,
    ask,
    signed: (given: Record<string, string>, patch?: Partial<Statement>) =>
      signedBy(statementOf(shop.id, given, patch), ana),
    async push(given: Record<string, string>, sequence: number): Promise<DeploymentRow> {
      const sent = signedBy(statementOf(shop.id, given, { sequence }), ana)
      return stage.deploy(shop, given, { sent })
    },
    edit: (path: string) => writeFileSync(join(shop.deployPath, path), 'edited'),
    read: (path: string) => readFileSync(join(shop.deployPath, path), 'utf8'),
    repair: async (more: { runScripts?: boolean } = {}): Promise<DeploymentRow> =>
      (await stage.deployer.repair(shop.id, { actor: admin, signal: never, ...more })).finished,
    components: () => stage.deployer.receive(Readable.from([Buffer.from(list)]), { limitBytes: 1e6, signal: never })
  }
}

/** Returns the end of a deployment, whose timer does not keep the process alive. */
const endOf = (run: Run) => inTime(run.finished)

t.test('a list of components is demanded, with and without signatures', async t => {
  for (const require of ['off', 'warn', 'refuse'] as const) {
    const { stage, shop, signed, components } = await scene(t, { require, sbom: 'require' })
    const sent = require === 'refuse' ? signed(files, { sbomSha256: digestOf(list) }) : null
    const row = await stage.deploy(shop, files, { sent, sbom: await components() })
    t.equal(row.status, 'success', `${require}: ${row.errorMessage}`)
    const without = signed(files, { sequence: 101 })
    await t.rejects(stage.push(shop, files, { sent: without }), { code: 'sbom_missing' }, require)
    if (require !== 'refuse') await t.rejects(stage.push(shop, files), { code: 'sbom_missing' }, `${require}, unsigned`)
  }
})

t.test('a promotion brings the list of components, and the one that was signed', async t => {
  const { stage, shop, signed, components } = await scene(t, { require: 'off' })
  const bare = await stage.deploy(shop, files)
  const rule = { ...defaultSignatures, sbom: 'require' as const }
  const production = await stage.addProject({ name: 'production', policy: { signatures: rule } })
  const promote = (from: string) => stage.deployer.promote(production.id, { from, actor: admin })
  await t.rejects(promote(bare.id), { code: 'sbom_missing' }, 'a list that no push has sent')
  const listed = await stage.deploy(shop, files, { sbom: await components() })
  t.match(await (await promote(listed.id)).finished, { status: 'success' })
  const sent = signed(files, { alsoFor: [production.id], sbomSha256: digestOf(list) })
  const good = await stage.deploy(shop, files, { sent, sbom: await components() })
  await stage.change(production, { policy: { signatures: { ...rule, require: 'refuse' } } })
  t.match(await (await promote(good.id)).finished, { status: 'success', signedBy: [{ name: 'ana' }] })
  writeFileSync(join(stage.home.deployments, `${good.id}.sbom.json`), list.replace('"x"', '"y"'))
  await t.rejects(promote(good.id), { code: 'signature_bad', message: /list of components is not the one/ })
})

t.test('a revoked key signs nothing new, whatever the clock says', async t => {
  let offMs = 0
  const clock = { ...systemClock, now: () => systemClock.now() + offMs }
  const { stage, shop, ana, push, signed } = await scene(t, {}, { clock })
  const first = await push(files, 100)
  offMs = 1000
  await stage.store.write(tx => updateSigningKey(tx, ana.row.id, { revokedAt: new Date(clock.now()).toISOString() }))
  for (const days of [0, -30]) {
    offMs = days * 86_400_000
    const sent = signed(files, { sequence: 101 })
    await t.rejects(stage.push(shop, files, { sent }), { code: 'signature_unknown_key' }, `${days} days`)
  }
  const back = await stage.deployer.rollback(first.id, { actor: admin, mode: 'overlay' })
  t.match(await back.finished, { status: 'success' }, 'what was accepted before stays')
})

t.test('a repair brings back only what was signed', async t => {
  const { stage, push, edit, read, repair } = await scene(t)
  edit('index.html')
  await t.rejects(repair(), { code: 'signature_missing', message: /Cannot put "index\.html" back/ })
  t.equal(read('index.html'), 'edited')
  await push(files, 100)
  for (const round of [1, 2]) {
    edit('app.js')
    t.match(await repair(), { status: 'success' }, `${round}`)
    t.equal(read('app.js'), 'let x')
  }
  const { id } = await push({ 'other.js': '1' }, 200)
  rmSync(join(stage.home.deployments, `${id}.manifest`))
  edit('app.js')
  t.match(await repair(), { status: 'success' }, 'an earlier signed release has it')
})

t.test('a way back runs no script that was not signed', async t => {
  const { stage, shop, signed, push, ask, edit, read, repair } = await scene(t, { require: 'off' })
  const attach = async (sequence: number): Promise<DeploymentRow> => {
    await ask({ require: 'off' })
    const row = await stage.deploy(shop, files, { sent: signed(files, { sequence }), preDeploy: 'touch evil' })
    t.equal(row.status, 'success', 'without a policy it is accepted')
    await ask({})
    return row
  }
  const evil = await attach(100)
  await push({ 'index.html': 'next' }, 101)
  for (const mode of ['overlay', 'exact'] as const)
    await t.rejects(stage.deployer.rollback(evil.id, { actor: admin, mode }), { code: 'signature_bad' }, mode)
  await t.rejects(stage.deployer.undo(shop.id, { actor: admin }), { code: 'signature_bad' })
  await attach(102)
  edit('app.js')
  await t.rejects(repair({ runScripts: true }), { code: 'signature_bad' })
  t.match(await repair(), { status: 'success' }, 'without scripts')
  t.equal(read('app.js'), 'let x')
})

t.test('a plan says that the way would be refused', async t => {
  const { stage, shop, ask, push, signed, components } = await scene(t, { require: 'off' })
  const bare = await stage.deploy(shop, files)
  const production = await stage.addProject({ name: 'production', policy: { signatures: defaultSignatures } })
  const promotion = () => stage.deployer.planPromotion(production.id, { from: bare.id, signal: never })
  t.match(await promotion(), { problem: null })
  const rule = { ...defaultSignatures, sbom: 'require' as const }
  await stage.change(production, { policy: { signatures: rule } })
  t.match(await promotion(), { problem: { code: 'sbom_missing' }, counts: { added: 0 } })
  await push({ 'index.html': 'signed' }, 100)
  await ask({})
  for (const mode of ['overlay', 'exact'] as const)
    t.match(await stage.deployer.planRollback(bare.id, { mode, signal: never }), {
      problem: { code: 'signature_missing', message: /the kept release is not signed/ }
    })
  t.match(await stage.deployer.planUndo(shop.id, { signal: never }), { problem: { code: 'signature_missing' } })

  const sent = signed(files, { sequence: 101, alsoFor: [production.id], sbomSha256: digestOf(list) })
  const good = await stage.deploy(shop, files, { sent, sbom: await components() })
  t.equal(good.status, 'success', good.errorMessage ?? '')
  await stage.change(production, { policy: { signatures: { ...rule, require: 'refuse' } } })
  t.match(await stage.deployer.planPromotion(production.id, { from: good.id, signal: never }), { problem: null })
  t.match(await stage.deployer.planUndo(shop.id, { signal: never }), { problem: null })
})

t.test('an undo of what came after a repair or an exact rollback', async t => {
  const { stage, shop, push, edit, read, repair } = await scene(t)
  const undo = async () => (await stage.deployer.undo(shop.id, { actor: admin })).finished
  const first = await push(files, 100)
  edit('app.js')
  t.match(await repair(), { status: 'success' })
  await push({ 'index.html': 'second' }, 101)
  t.match(await undo(), { status: 'success' }, 'the state that a repair left')
  await push({ 'index.html': 'third' }, 102)
  const back = await stage.deployer.rollback(first.id, { actor: admin, mode: 'exact' })
  t.match(await back.finished, { status: 'success' })
  await push({ 'index.html': 'fourth' }, 103)
  t.match(await undo(), { status: 'success' }, 'the state that a rollback left')
  t.equal(read('index.html'), 'new')
})

t.test('a release that waits is judged when it begins', async t => {
  const { stage, shop, signed, push, read } = await scene(t)
  const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString()
  const late = await stage.push(shop, files, { sent: signed(files, { notAfter: inMs(3000) }), startAt: inMs(3500) })
  t.match(await endOf(late), { status: 'failed', errorMessage: /The statement has expired/ })
  const earlier = await stage.push(shop, files, { sent: signed(files), startAt: inMs(3000) })
  await push({ 'index.html': 'newer' }, 101)
  t.match(await endOf(earlier), { status: 'failed', errorMessage: /it was signed earlier/ })
  t.equal(read('index.html'), 'newer')
})

t.test('an approval that comes after the statement has expired', async t => {
  const { stage, shop, signed, read } = await scene(t)
  await stage.change(shop, { policy: { ...shop.policy, approval: defaultApproval } })
  const notAfter = new Date(Date.now() + 3000).toISOString()
  const waits = await stage.push(shop, files, { sent: signed(files, { notAfter }) })
  t.match(stage.row(waits.deployId), { status: 'queued', heldFor: 'approval' })
  while (new Date().toISOString() < notAfter) await sleep(100)
  const bo: Actor = { name: 'bo', ip: null, role: 'operator', token: { id: 'tok_bo', name: 'bo' } }
  const treeSha256 = stage.row(waits.deployId).treeSha256 ?? ''
  await stage.deployer.approve(waits.deployId, { actor: bo, treeSha256 })
  t.match(await endOf(waits), { status: 'failed', errorMessage: /The statement has expired/ })
  t.equal(read('index.html'), 'old')
})

t.test('an archive that somebody changes while it waits, or before it is promoted', async t => {
  const { stage, shop, signed, push, read } = await scene(t)
  const other = /does not contain the files that were signed/
  const change = async (id: string): Promise<void> =>
    writeFileSync(join(stage.home.deployments, `${id}.zip`), await zipOf({ ...files, 'app.js': 'evil' }))
  const startAt = new Date(Date.now() + 3000).toISOString()
  const waits = await stage.push(shop, files, { sent: signed(files), startAt })
  await change(waits.deployId)
  t.match(await endOf(waits), { status: 'failed', errorMessage: other, placed: null })
  t.equal(read('index.html'), 'old')

  const production = await stage.addProject({ name: 'production', policy: shop.policy })
  const sent = signed(files, { sequence: 101, alsoFor: [production.id] })
  const good = await stage.deploy(shop, files, { sent })
  t.equal(good.status, 'success')
  await change(good.id)
  const promoted = await (await stage.deployer.promote(production.id, { from: good.id, actor: admin })).finished
  t.match(promoted, { status: 'failed', errorMessage: other, placed: null })
  t.notOk(existsSync(join(production.deployPath, 'app.js')))

  // A server that was killed takes up what waits, with its statement.
  await push({ 'index.html': 'newer' }, 102)
  const later = new Date(Date.now() + 4000).toISOString()
  const { deployId } = await stage.push(shop, files, { sent: signed(files, { sequence: 103 }), startAt: later })
  await change(deployId)
  const after = await stage.restart()
  await until(() => after.row(deployId).status === 'failed')
  t.match(after.row(deployId), { status: 'failed', errorMessage: other, placed: null })
  t.equal(read('index.html'), 'newer')
})

t.test('entries of other kinds than the signed ones', async t => {
  const { stage, shop, ana } = await scene(t)
  const link = (path: string) => ({ name: 'current', data: path, mode: 0o120777 })
  const page = { name: 'index.html', data: 'new', mode: 0o100644 }
  const program = { name: 'run', data: '#!/bin/sh', mode: 0o100755 }
  const tree = createTreeDigest()
  for (const { name: path, data, mode } of [link('index.html'), page, program])
    tree.add({ path, mode, size: data.length, sha256: digestOf(data) })
  const sent = signedBy(statementOf(shop.id, {}, { treeSha256: tree.end() }), ana)
  const push = async (entries: EntryPlan[]): Promise<DeploymentRow | Error> => {
    const bytes = Readable.from([makeZip(entries)])
    const received = await stage.deployer.receive(bytes, { limitBytes: 1e6, signal: never })
    const request = { projectId: shop.id, env: {}, actor: admin, sent }
    return stage.deployer.deploy(received, request).then(({ finished }) => finished)
  }
  const good = [link('index.html'), page, program]
  const attacks: Record<string, EntryPlan[]> = {
    'a link that leads elsewhere': [link('run'), page, program],
    'a link that leads out of the target': [link('../../home/config.json'), page, program],
    'a file in place of the link, with its path as contents': [
      { ...link('index.html'), mode: 0o100777 },
      page,
      program
    ],
    'a link in place of a file': [link('index.html'), { ...page, mode: 0o120777 }, program],
    'a file that is a program': [link('index.html'), { ...page, mode: 0o100755 }, program],
    'no permissions at all': good.map(({ name, data }) => ({ name, data })),
    'the same file in another case': [...good, { ...page, name: 'INDEX.html' }],
    'the same name twice': [...good, { ...page, data: 'evil' }],
    'a path that leads back': [...good, { ...page, name: 'a/../index.html', data: 'evil' }],
    'an empty tree': [],
    'directories alone': [{ name: 'a/', mode: 0o40755 }]
  }
  for (const [name, entries] of Object.entries(attacks)) {
    const row = await push(entries).catch((error: Error) => error)
    t.not((row as DeploymentRow).status, 'success', name)
    t.strictSame(readdirSync(shop.deployPath), ['index.html'], `${name}: the target is as it was`)
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'old', name)
  }
  // The tree does not contain them: directories, and what no file of a target may have.
  const row = await push([{ name: 'empty/', mode: 0o40755 }, ...good.slice(0, 2), { ...program, mode: 0o104755 }])
  t.match(row, { status: 'success' }, (row as DeploymentRow).errorMessage ?? '')
  t.equal(statSync(join(shop.deployPath, 'run')).mode & 0o7777, 0o755)
})
