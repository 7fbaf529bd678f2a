import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { PlanCheck, VerifyEvent } from '../../lib/model/plan.js'
import type { Project } from '../../lib/model/project.js'
import { maySwitchUser } from '../../lib/core/proc/identity.js'
import { admin, deployStage, never, type DeployStage } from '../support/deploy-stage.js'
import { openDirectory } from '../support/open-directory.js'
import { treeBody } from '../support/planned.js'

/* The policy `group`, from the first push to the way back. */

const asRoot = maySwitchUser() ? {} : { skip: 'only root can give files to groups that it is not in' }
const own = process.getegid?.() ?? 0
/** Numbers of groups, which need no name. */
const [first, second, other] = [54_001, 54_002, 54_003]
const policy = { group: String(first), fileMode: '0640', directoryMode: '0750', prune: 'managed' } as const
const files = { page: '1', 'bin/run': '#!', 'old/a': 'a' }
const paths = ['page', 'bin', 'bin/run', 'old', 'old/a']

const groupAt = ({ deployPath }: Project, path = ''): number => lstatSync(join(deployPath, path)).gid
const groupsOf = (project: Project): number[] => paths.map(path => groupAt(project, path))
const all = (group: number): number[] => paths.map(() => group)

async function findings({ deployer }: DeployStage, { id: projectId }: Project): Promise<string[]> {
  const found: string[] = []
  const events: VerifyEvent[] = []
  for await (const some of deployer.verify({ projectId, sums: false, signal: never })) events.push(...some)
  for (const each of events) if (each.event === 'finding') found.push(`${each.path} ${each.state}`)
  return found
}

async function planned(stage: DeployStage, project: Project, given: Record<string, string> = files) {
  const site = join(stage.directory, 'site')
  for (const [path, text] of Object.entries(given)) {
    mkdirSync(join(site, path, '..'), { recursive: true })
    writeFileSync(join(site, path), text)
  }
  const asks = { asks: { prune: undefined, force: false }, listed: 9, scripts: {}, mayUpload: true, clientTimeMs: null }
  const tree = await treeBody(site)
  const { id: projectId } = project
  return stage.deployer.plan({ projectId, tree, noSpace: null, maxUploadBytes: 5, signal: never, ...asks })
}

const groupCheck = (checks: readonly PlanCheck[]) => checks.find(({ name }) => name === 'group')

async function undo({ deployer }: DeployStage, project: Project): Promise<void> {
  await (await deployer.undo(project.id, { actor: admin })).finished
}

t.test('what svc writes has the group, and a plan, a verification and every way back know it', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy })
  t.match(await stage.deploy(project, files), { status: 'success' })
  t.equal(groupAt(project), first, 'a new target')
  t.strictSame(groupsOf(project), all(first))
  t.strictSame(await findings(stage, project), [])
  chownSync(join(project.deployPath, 'page'), -1, other)
  chownSync(join(project.deployPath, 'bin'), -1, other)
  t.strictSame(await findings(stage, project), ['page mode'])
  t.match(await (await stage.deployer.repair(project.id, { actor: admin, signal: never })).finished, {
    status: 'success'
  })
  t.strictSame([groupAt(project, 'page'), groupAt(project, 'bin')], [first, other], 'directories are nobody’s alone')
  t.strictSame(await findings(stage, project), [])

  await stage.change(project, { policy: { ...policy, group: String(second) } })
  const plan = await planned(stage, project)
  t.strictSame(plan.paths.changed, ['bin/run', 'old/a', 'page'])
  t.match(groupCheck(plan.checks), { ok: true })
  await stage.change(project, { policy })
  await stage.deploy(project, { ...files, page: '2' })
  await undo(stage, project)
  t.equal(groupAt(project, 'page'), first, 'other contents under the same policy')

  await stage.change(project, { policy: { ...policy, group: String(second) } })
  const next = await stage.deploy(project, files)
  t.match(await stage.output(next.id), '0 new or changed, 3 with other permissions')
  t.strictSame(groupsOf(project), [second, other, second, first, second], 'existing directories keep theirs')
  const back = await stage.deployer.planUndo(project.id, { signal: never })
  t.strictSame(back.paths.changed, ['bin/run', 'old/a', 'page'], 'the plan of an undo')
  await undo(stage, project)
  t.strictSame(groupsOf(project), [first, other, first, first, first])
  t.strictSame(await findings(stage, project), [])
  t.strictSame((await stage.deployer.planUndo(project.id, { signal: never })).paths.changed.length, 3)
})

t.test('a policy that begins or ends takes no group away that a way back needs', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { ...policy, group: null } })
  const before = await stage.deploy(project, { ...files, page: '0' })
  await stage.deploy(project, files)
  await stage.change(project, { policy })
  await stage.deploy(project, { ...files, page: '2' })
  t.strictSame(groupsOf(project), [first, own, first, own, first])
  await stage.change(project, { policy: { ...policy, group: null } })
  await stage.deploy(project, { page: '3', 'bin/run': '#!' })
  t.strictSame(
    ['page', 'bin/run'].map(path => groupAt(project, path)),
    [own, first],
    'what is not replaced keeps its group'
  )
  await undo(stage, project)
  t.strictSame(groupsOf(project), [first, own, first, own, first], 'what was replaced and what was removed')
  await undo(stage, project)
  await undo(stage, project)
  t.strictSame(groupsOf(project), [first, own, first, own, first], 'an undo can be undone')
  const way = { actor: admin, mode: 'exact' } as const
  t.match(await (await stage.deployer.rollback(before.id, way)).finished, { status: 'success' })
  t.strictSame(groupsOf(project), all(own), 'over several deployments')
})

t.test('a file that was removed and added again goes back to the group that it first had', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { prune: 'managed' } })
  const goal = await stage.deploy(project, files)
  await stage.deploy(project, { page: '1' })
  await stage.change(project, { policy })
  await stage.deploy(project, files)
  t.strictSame(groupsOf(project), all(first))
  await (await stage.deployer.rollback(goal.id, { actor: admin, mode: 'exact' })).finished
  t.strictSame([groupAt(project, 'page'), groupAt(project, 'bin/run')], [own, own])
})

t.test('a file keeps its group after the policy has ended, and is repaired', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy })
  await stage.deploy(project, files)
  await stage.change(project, { policy: { ...policy, group: null } })
  await stage.deploy(project, { ...files, page: '2' })
  chownSync(join(project.deployPath, 'bin/run'), -1, other)
  t.strictSame(await findings(stage, project), ['bin/run mode'])
  await (await stage.deployer.repair(project.id, { actor: admin, signal: never })).finished
  t.strictSame([groupAt(project, 'page'), groupAt(project, 'bin/run')], [own, first])
})

t.test('a removed directory comes back with its group, from a revert and from an undo', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { ...policy, onPostFailure: 'revert', revertScript: 'none' } })
  await stage.deploy(project, files)
  await stage.change(project, { postDeployScript: 'chgrp -R 54003 .; test ! -e old && exit 1' })
  const failed = await stage.deploy(project, { page: '2', 'bin/run': '#!' })
  t.match(failed, { status: 'failed', revertReason: 'post' })
  t.strictSame(
    ['page', 'old', 'old/a'].map(path => groupAt(project, path)),
    [first, first, first],
    'whatever the script did to what is kept aside'
  )
  await stage.change(project, { postDeployScript: '' })
  await stage.deploy(project, { page: '2', 'bin/run': '#!' })
  t.notOk(existsSync(join(project.deployPath, 'old')))
  await undo(stage, project)
  t.strictSame([groupAt(project, 'old'), groupAt(project, 'old/a')], [first, first])
})

t.test('a folder that a script removes comes back with its group', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { ...policy, onPostFailure: 'revert', revertScript: 'none' } })
  await stage.deploy(project, files)
  await stage.change(project, { postDeployScript: 'rm -r bin; exit 1' })
  t.match(await stage.deploy(project, { ...files, 'bin/run': '2' }), { status: 'failed', revertReason: 'post' })
  t.strictSame([groupAt(project, 'bin'), groupAt(project, 'bin/run')], [first, first])
})

t.test('a group that a script gives belongs to its deployment', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy, postDeployScript: 'chgrp 54003 page' })
  const row = await stage.deploy(project, files)
  t.match(await stage.output(row.id), 'the script changed 1 deployed file: "page"')
  t.equal(groupAt(project, 'page'), other)
  t.strictSame(await findings(stage, project), [])
  await stage.change(project, { postDeployScript: '' })
  await stage.deploy(project, { ...files, page: '2' })
  t.equal(groupAt(project, 'page'), first)
  await undo(stage, project)
  t.equal(groupAt(project, 'page'), other)

  await stage.change(project, { policy: { ...policy, prune: 'off' }, postDeployScript: 'chgrp 54003 old/a' })
  await stage.deploy(project, { page: '3' })
  t.equal(groupAt(project, 'old/a'), other, 'of a file of an earlier deployment')
  await stage.change(project, { postDeployScript: '' })
  await undo(stage, project)
  t.equal(groupAt(project, 'old/a'), first)
})

t.test('an exact rollback restores the group that a deployment gave, not what somebody made of it', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy })
  const goal = await stage.deploy(project, files)
  chownSync(join(project.deployPath, 'page'), -1, other)
  await stage.deploy(project, { ...files, page: '2' })
  await (await stage.deployer.rollback(goal.id, { actor: admin, mode: 'exact' })).finished
  t.equal(groupAt(project, 'page'), first)
})

t.test('a plan holds the deployment to the groups that it found', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy })
  await stage.deploy(project, files)
  const { planId } = await planned(stage, project)
  chownSync(join(project.deployPath, 'page'), -1, other)
  const row = await stage.deploy(project, files, { planId: planId ?? '' })
  t.match(row, { status: 'failed', errorMessage: /"page" was changed/ })
})

t.test('a group that cannot be given is refused before anything runs, and the plan says the same', async t => {
  const stage = await deployStage(t)
  const preDeployScript = 'echo ran'
  const project = await stage.addProject({ policy: { ...policy, group: 'no-such-group' }, preDeployScript })
  const why = 'Nothing was changed: cannot give files the group "no-such-group": no such group on this machine.'
  const check = groupCheck((await planned(stage, project)).checks)
  t.match(check, { ok: false, code: 'group_unusable' })
  t.equal(check?.message?.slice(0, why.length), why)
  const row = await stage.deploy(project, files)
  t.match(row, { status: 'failed', errorMessage: check?.message ?? '' })
  t.notMatch(await stage.output(row.id), /^ran$/m)
  t.notOk(existsSync(project.deployPath))
  const request = { projectId: project.id, actor: admin, force: false, reason: null }
  await t.rejects(stage.deployer.maintenance.on(request), { kind: 'conflict', code: 'group_unusable' })
  t.match(await stage.deployer.drift({ projectId: project.id, isFull: false, signal: never }), {
    problem: null
  })
})

t.test('a user can give the groups that it is in, and no others', asRoot, async t => {
  const stage = await deployStage(t)
  const deployPath = join(openDirectory(t), 'site')
  mkdirSync(deployPath)
  chmodSync(deployPath, 0o777)
  const project = await stage.addProject({ deployPath, runAs: 'nobody', policy: { group: 'daemon' } })
  const check = groupCheck((await planned(stage, project)).checks)
  t.match(check, { ok: false, message: /the user "nobody" is not in it/ })
  t.match(await stage.deploy(project, files), { status: 'failed', errorMessage: check?.message ?? '' })
  await stage.change(project, { policy: { group: 'nogroup' } })
  t.match(await stage.deploy(project, files), { status: 'success' })
  t.strictSame(groupsOf(project), all(65_534))
  t.strictSame(await findings(stage, project), [])
})

t.test('the file of the maintenance has the group, too', asRoot, async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    policy: { ...policy, directoryMode: '2750', maintenanceFile: 'public/down' }
  })
  await stage.deployer.maintenance.on({ projectId: project.id, actor: admin, force: false, reason: null })
  t.strictSame([groupAt(project, 'public'), groupAt(project, 'public/down')], [first, first])
  const { mode } = lstatSync(join(project.deployPath, 'public'))
  t.equal(mode & 0o7777, 0o2750, 'the setgid bit comes after the group')
})
