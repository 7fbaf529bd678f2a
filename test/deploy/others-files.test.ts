import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { makeZip } from '../support/make-zip.js'
import { treeBody } from '../support/planned.js'
import { soon, until } from '../support/until.js'

/* What a deployment does, and says, about what somebody else has done in its target. */

async function planRequest(stage: DeployStage, project: Project, files: Record<string, string>) {
  const site = mkdtempSync(join(stage.directory, 'site-'))
  for (const [path, contents] of Object.entries(files)) writeFileSync(join(site, path), contents)
  const asks = { asks: { prune: undefined, force: false }, listed: 9, scripts: {}, mayUpload: true, clientTimeMs: null }
  const tree = await treeBody(site)
  return { projectId: project.id, tree, noSpace: null, maxUploadBytes: 5, signal: soon(), ...asks }
}

t.test('a file that svc did not put there is named when it is replaced, or protected by the policy', async t => {
  const stage = await deployStage(t)
  for (const drift of ['warn', 'off', 'refuse'] as const) {
    const project = await stage.addProject({ policy: { drift } })
    mkdirSync(project.deployPath, { recursive: true })
    const database = join(project.deployPath, 'site.sqlite')
    for (const state of ['before the first deployment', 'after one']) {
      writeFileSync(database, 'data')
      const what = `${drift}, ${state}`
      const { counts, paths } = await stage.deployer.plan(
        await planRequest(stage, project, { a: state, 'site.sqlite': 'empty' })
      )
      const isForeign = drift === 'refuse' || state !== 'after one'
      t.strictSame([counts.foreign, paths.foreign], isForeign ? [1, ['site.sqlite']] : [0, []], `the plan, ${what}`)
      const row = await stage.deploy(project, { a: state, 'site.sqlite': 'empty' })
      const said = await stage.output(row.id)
      const line = '→ replaced "site.sqlite", which svc did not put there'
      if (drift === 'refuse') {
        t.match(
          row,
          { status: 'failed', errorMessage: /"site.sqlite" was edited .*, or put there by somebody else/ },
          what
        )
        t.equal(readFileSync(database, 'utf8'), 'data')
        await stage.deploy(project, { a: 'first' })
      } else if (state === 'after one') t.equal(/"site.sqlite", which was edited/.test(said), drift === 'warn', what)
      else t.equal(said.includes(line), drift === 'warn', what)
    }
    writeFileSync(join(project.deployPath, 'same'), 'as in the archive')
    const row = await stage.deploy(project, { same: 'as in the archive' })
    t.notMatch(await stage.output(row.id), /which svc did not put there/, 'nothing is lost')
  }
})

t.test('permissions that somebody has changed are changed back, and counted', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: '1', b: '1' })
  chmodSync(join(project.deployPath, 'a'), 0o664)
  const row = await stage.deploy(project, { a: '1', b: '1' })
  t.match(await stage.output(row.id), /extracted 2 files \(2 B\), 0 new or changed, 1 with other permissions/)
  t.equal(statSync(join(project.deployPath, 'a')).mode & 0o777, 0o644)
})

t.test('what is made in a setgid directory has its group, and is setgid, also if the archive lists it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  mkdirSync(project.deployPath, { recursive: true })
  if (process.getuid?.() === 0) chownSync(project.deployPath, 0, 33)
  chmodSync(project.deployPath, 0o2775)
  const { gid } = statSync(project.deployPath)
  const zip = makeZip([
    { name: 'listed/', mode: 0o40755 },
    { name: 'listed/a', data: '1', mode: 0o100644 },
    { name: 'other/b', data: '1', mode: 0o100644 }
  ])
  const limits = { limitBytes: 1e6, signal: soon() }
  const received = await stage.deployer.receive(Readable.from([zip]), limits)
  const actor = { name: 'admin', ip: null }
  await (await stage.deployer.deploy(received, { projectId: project.id, env: {}, actor })).finished
  for (const name of ['listed', 'other'])
    t.match(statSync(join(project.deployPath, name)), { gid, mode: 0o40000 | 0o2755 }, name)
})

t.test('a file that nobody may change is named', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: '1', '.user.ini': '1' })
  const place = join(project.deployPath, '.user.ini')
  const set = spawnSync('chattr', ['+i', place])
  if (set.status !== 0) return t.plan(0, `chattr does not work here: ${String(set.stderr ?? set.error).trim()}`)
  t.teardown(() => execFileSync('chattr', ['-i', place]))
  const row = await stage.deploy(project, { a: '2', '.user.ini': '2' })
  t.match(row, { status: 'failed', errorMessage: /operation not permitted.*"\.user\.ini"/ })
  t.notMatch(row.errorMessage, /\/proc\//)
  t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), '1', 'nothing was changed')
})

t.test('earlier files come back with their owner and permissions after a script that changes them all', async t => {
  const isRoot = process.getuid?.() === 0
  const change = `${isRoot ? 'chown -R 33:33 . && chown -h 33:33 .svc-staging-*/aside/*;' : ''} chmod -R 707 .; exit 1`
  for (const from of ['the deployment itself', 'the next start'] as const) {
    const stage = await deployStage(t)
    const project = await stage.addProject({ policy: { prune: 'managed', onPostFailure: 'revert' } })
    await stage.deploy(project, { a: '1', 'gone.sh': '1', 'd/b': '1' })
    const stateOf = (path: string) => {
      const { mode, uid, gid } = statSync(join(project.deployPath, path))
      return { mode: mode & 0o7777, uid, gid }
    }
    chmodSync(join(project.deployPath, 'd/b'), 0o640)
    if (isRoot) chownSync(join(project.deployPath, 'a'), 7, 8)
    const before = ['a', 'gone.sh', 'd/b'].map(stateOf)
    const revertScript = 'none' as const
    await stage.change(project, { policy: { prune: 'managed', onPostFailure: 'revert', revertScript } })
    const files = { a: '2', 'd/b': '2', new: '2' }
    if (from === 'the deployment itself')
      t.match(await stage.deploy(project, files, { postDeploy: change }), { status: 'failed', revertReason: 'post' })
    else {
      const run = await stage.push(project, files, { postDeploy: `${change.replace('exit 1', '')} sleep 60` })
      await until(() => existsSync(join(project.deployPath, 'new')) && stateOf('new').mode === 0o707)
      const next = await stage.restart()
      await until(() => next.row(run.deployId).status === 'failed')
      t.match(next.row(run.deployId), { revertReason: 'restart', revertedAt: /Z$/ })
    }
    t.strictSame(['a', 'gone.sh', 'd/b'].map(stateOf), before, from)
    t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), '1')
  }
})

const notRoot = process.getuid?.() !== 0 && 'only root can give files away'

t.test(
  'an undo gives replaced and removed files back to their owner, without his rights',
  { skip: notRoot },
  async t => {
    const stage = await deployStage(t)
    const project = await stage.addProject({ policy: { prune: 'managed' } })
    const at = (path: string): string => join(project.deployPath, path)
    const stateOf = (path: string): string => {
      const { mode, uid, gid } = lstatSync(at(path))
      return `${path} ${(mode & 0o7777).toString(8)} ${uid}:${gid}`
    }
    mkdirSync(project.deployPath, { recursive: true })
    writeFileSync(at('mine'), 'mine')
    symlinkSync('mine', at('link'))
    await stage.deploy(project, { own: '1', gone: '1', program: '1', same: '1' })
    rmSync(at('program'))
    writeFileSync(at('program'), 'of somebody else')
    for (const path of ['mine', 'link', 'program', 'gone', 'same']) lchownSync(at(path), 7, 8)
    chmodSync(at('mine'), 0o640)
    for (const path of ['program', 'gone']) chmodSync(at(path), 0o6755)
    await stage.deploy(project, { mine: '2', link: '2', own: '2', program: '2', same: '1' })
    t.strictSame(['mine', 'link'].map(stateOf), ['mine 644 0:0', 'link 644 0:0'])
    t.notOk(existsSync(at('gone')))
    const undo = await stage.deployer.undo(project.id, { actor: admin, force: true })
    t.match(await undo.finished, { status: 'success' })
    t.strictSame(readdirSync(project.deployPath).map(stateOf), [
      'gone 755 7:8',
      'link 777 7:8',
      'mine 640 7:8',
      'own 644 0:0',
      'program 755 7:8',
      'same 644 7:8'
    ])
    t.equal(readFileSync(at('program'), 'utf8'), 'of somebody else')
  }
)
