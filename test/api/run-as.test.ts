/*
 * Projects that run as different users, on a real server that runs as root: two projects, two users, and every attack
 * of one user on the other and on svc.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { findIdentity, maySwitchUser, type Identity } from '../../lib/core/proc/identity.js'
import type { Project } from '../../lib/model/project.js'
import { eventsOf, formOf } from '../support/client.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

const options = maySwitchUser() ? {} : { skip: 'only root on Linux may take on the rights of another user' }

interface Owner {
  user: Identity
  directory: string
  project: Project
}

/** A project in a directory that only its user can enter. */
async function ownedProject(stage: Stage, top: string, name: string): Promise<Owner> {
  const user = await findIdentity(name)
  const directory = join(top, name)
  mkdirSync(directory, { mode: 0o700 })
  chownSync(directory, user.uid, user.gid)
  const project = await stage.createProject(name, { deployPath: directory, runAs: name, umask: '027' })
  return { user, directory, project }
}

async function push(
  stage: Stage,
  { project }: Owner,
  files: Record<string, string>,
  fields: Record<string, string> = {}
) {
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf(files) }],
    ...Object.entries(fields)
  ])
  const reply = await stage
    .as(project.token)
    .send('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  const events = eventsOf(reply) as Array<{ event: string; data?: string; status?: string; deployId?: string }>
  return { last: events.at(-1), lines: events.flatMap(({ data }) => data ?? []) }
}

t.test('projects with users of their own', options, async t => {
  const top = mkdtempSync(join(tmpdir(), 'svc-run-as-'))
  chmodSync(top, 0o755)
  t.teardown(() => rmSync(top, { recursive: true, force: true }))
  const stage = await startServer(t, { environment: { ROOTS_SECRET: 'of root' } })
  const one = await ownedProject(stage, top, 'nobody')
  const other = await ownedProject(stage, top, 'daemon')

  t.test('refuses users that must not be used', async t => {
    const cases: Array<[fields: object, field: string, why: RegExp]> = [
      [{ runAs: 'root' }, 'runAs', /rights of root/],
      [{ runAs: 'no-such-user-here' }, 'runAs', /no such user/],
      [{ runAs: '-x' }, 'runAs', /not a valid user name/],
      [{ runAs: 7 }, 'runAs', /string/],
      [{ umask: '9' }, 'umask', /three octal digits/]
    ]
    for (const [fields, field, why] of cases) {
      const { status, body } = await stage.client.put(`/api/projects/${one.project.id}`, fields)
      t.match(
        { status, body },
        { status: 400, body: { code: 'invalid_field', error: why } },
        `${field}: ${JSON.stringify(fields)}`
      )
    }
    t.match((await stage.client.get(`/api/projects/${one.project.id}`)).body, { runAs: 'nobody', umask: '027' })
    const plain = await stage.createProject('plain')
    t.match((await stage.client.put(`/api/projects/${plain.id}`, { runAs: '', umask: '' })).body, {
      project: { runAs: null, umask: null }
    })
  })

  t.test('secrets reach the scripts of the user, but not the list of processes', async t => {
    const variables = [{ name: 'PASSWORD', value: 'correct-horse-battery', secret: true }]
    t.equal((await stage.client.put(`/api/projects/${one.project.id}/variables`, { variables })).status, 200)
    const postDeploy =
      '[ ${#PASSWORD} = 21 ] && echo "it is $PASSWORD"; cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep -c "[c]orrect-horse"'
    const { lines } = await push(stage, one, { 'index.html': 'x' }, { postDeploy })
    t.ok(lines.includes('it is ***'), lines.join('\n'))
    t.ok(lines.includes('0'), 'no command line contains it')
    await stage.client.put(`/api/projects/${one.project.id}/variables`, { variables: [] })
  })

  t.test('scripts and files have the permissions of the user and the umask of the project', async t => {
    const script =
      'id -un; id -Gn; umask; pwd; echo "home $HOME secret ${ROOTS_SECRET:-none}"; grep NoNewPrivs /proc/self/status; cat "$SVC_CHANGES"; touch by-script'
    const groups = spawnSync('id', ['-Gn', 'nobody'], { encoding: 'utf8' }).stdout.trim()
    const { last, lines } = await push(
      stage,
      one,
      { 'index.html': 'one', 'sub/page.html': 'two' },
      { preDeploy: 'id -un', postDeploy: script }
    )
    t.match(last, { event: 'status', status: 'success' })
    const said = lines.filter(line => !line.startsWith('→'))
    t.match(
      said.join('\n'),
      `nobody\nnobody\n${groups}\n0027\n${one.directory}\nhome ${one.user.home} secret none\nNoNewPrivs:\t1\nindex.html\nsub/page.html`
    )
    for (const [name, mode] of [
      ['index.html', 0o640],
      ['sub', 0o750],
      ['sub/page.html', 0o640],
      ['by-script', 0o640]
    ] as const) {
      const stats = statSync(join(one.directory, name))
      t.strictSame([stats.uid, stats.gid, stats.mode & 0o777], [one.user.uid, one.user.gid, mode], name)
    }
    const list = join(tmpdir(), `svc-${last?.deployId}.changes`)
    await until(() => !existsSync(list), { what: 'the list of changes goes with the end of the deployment' })
  })

  t.test('no user can read, write or signal anything of the other or of svc', async t => {
    await push(
      stage,
      other,
      { 'secret.txt': 'of the other' },
      { postDeploy: 'sleep 60 >/dev/null 2>&1 & echo $! > pid' }
    )
    const pid = readFileSync(join(other.directory, 'pid'), 'utf8').trim()
    t.teardown(() => spawnSync('kill', [pid]))
    const { home } = stage
    const tries = [
      `cat ${other.directory}/secret.txt`,
      `ls ${other.directory}`,
      `cd ${other.directory}`,
      `touch ${other.directory}/planted`,
      `rm -rf ${other.directory}`,
      `kill ${pid}`,
      `cat /proc/${pid}/environ`,
      `ls /proc/${pid}/fd`,
      `cat ${home.configFile}`,
      `ls ${home.directory}`,
      `touch ${home.directory}/.env.local`,
      `ls ${home.deployments}`,
      `kill -9 ${process.pid}`,
      `cat /proc/${process.pid}/environ`,
      `ls /proc/${process.pid}/fd`,
      `cat /etc/shadow`
    ]
    const script = tries
      .map(command => `if (${command}) >/dev/null 2>&1; then echo 'could: ${command}'; else echo refused; fi`)
      .join('\n')
    const { last, lines } = await push(stage, one, { 'index.html': 'three' }, { postDeploy: script })
    t.match(last, { status: 'success' })
    t.strictSame(
      lines.filter(line => line.startsWith('could')),
      []
    )
    t.equal(lines.filter(line => line === 'refused').length, tries.length)
    t.strictSame(readdirSync(other.directory).sort(), ['pid', 'secret.txt'])
    t.equal(spawnSync('kill', ['-0', pid]).status, 0, 'the process of the other user still runs')
  })

  t.test('links of one user do not give access to files of another', async t => {
    symlinkSync(join(other.directory, 'secret.txt'), join(one.directory, 'file-link'))
    symlinkSync(other.directory, join(one.directory, 'folder-link'))
    symlinkSync(stage.home.directory, join(one.directory, 'home-link'))
    const ask = (path: string) =>
      stage.client.get(`/api/projects/${one.project.id}/file?path=${encodeURIComponent(path)}`)
    for (const path of ['file-link', 'folder-link/secret.txt', 'home-link/svc.db']) {
      const { status, text } = await ask(path)
      t.ok(status === 403 || status === 404, `${path}: ${status}`)
      t.notMatch(text, 'of the other')
    }
    const written = await push(stage, one, { 'folder-link/planted': 'x' })
    t.match(written.last, { status: 'failed' })
    t.notOk(existsSync(join(other.directory, 'planted')))
    for (const name of ['file-link', 'folder-link', 'home-link']) rmSync(join(one.directory, name))
  })

  t.test('svc shows, measures, packs and rolls back files that only the user can read', async t => {
    const { id } = one.project
    writeFileSync(join(one.directory, 'own.txt'), 'made by hand', { mode: 0o600 })
    chownSync(join(one.directory, 'own.txt'), one.user.uid, one.user.gid)
    const { body: entries } = await stage.client.get(`/api/projects/${id}/files`)
    t.match(
      entries.map(({ name }: { name: string }) => name),
      ['sub', 'by-script', 'index.html', 'own.txt']
    )
    t.match((await stage.client.get(`/api/projects/${id}/file?path=own.txt`)).body, {
      type: 'text',
      content: 'made by hand'
    })
    const part = await stage.client.send('GET', `/api/projects/${id}/download?path=own.txt`, {
      headers: { range: 'bytes=5-6' }
    })
    t.match(part, { status: 206, text: 'by' })
    const { body: storage } = await stage.client.get('/api/storage')
    const usage = storage.projects.find(({ projectId }: { projectId: string }) => projectId === id)
    t.ok(usage.deployPathBytes >= 'made by hand'.length, `${usage.deployPathBytes} bytes`)

    const { body: list } = await stage.client.get(`/api/logs?projectId=${id}&status=success`)
    const first = list.at(-1).id as string
    const rolled = await stage.client.post(`/api/deployments/${first}/rollback`)
    t.match(rolled.body, { success: true })
    t.equal(readFileSync(join(one.directory, 'index.html'), 'utf8'), 'one')
    t.equal(statSync(join(one.directory, 'index.html')).uid, one.user.uid)
  })

  t.test('files are verified, sent and repaired with the permissions of the user', async t => {
    const { id, token } = one.project
    await push(stage, one, { 'index.html': 'one', 'sub/page.html': 'two', 'other/page.html': 'three' })
    const at = (path: string): string => join(one.directory, path)
    const verify = async () => eventsOf(await stage.as(token).get(`/api/projects/${id}/verify`))
    t.match((await verify()).at(-1), { event: 'end', changed: 0, missing: 0, otherType: 0, mode: 0, isOutdated: false })
    writeFileSync(at('index.html'), 'by hand')
    chmodSync(at('sub/page.html'), 0o600)
    rmSync(at('other'), { recursive: true })
    symlinkSync(other.directory, at('other'))
    writeFileSync(join(other.directory, 'page.html'), 'three')
    const findings = (await verify()).filter(({ event }) => event === 'finding')
    t.match(findings, [
      { path: 'index.html', state: 'changed' },
      { path: 'other/page.html', state: 'missing' },
      { path: 'sub/page.html', state: 'mode' }
    ])
    const file = await stage.as(token).get(`/api/projects/${id}/drift/file?path=index.html`)
    t.match(file, { status: 200, text: 'by hand' })
    const paths = ['index.html', 'sub/page.html']
    t.match(await stage.client.post(`/api/projects/${id}/repair`, { paths }), { body: { success: true } })
    t.equal(readFileSync(at('index.html'), 'utf8'), 'one')
    for (const path of paths) {
      const { uid, mode } = statSync(at(path))
      t.strictSame([uid, mode & 0o777], [one.user.uid, 0o640], path)
    }
    t.match((await stage.client.post(`/api/projects/${id}/repair`)).body, { success: false, error: /symbolic link/ })
    rmSync(at('other'))
    t.match((await stage.client.post(`/api/projects/${id}/repair`)).body, { success: true })
    t.match((await verify()).at(-1), { changed: 0, missing: 0, otherType: 0, mode: 0 })
    rmSync(join(other.directory, 'page.html'))
  })

  t.test('a target without an archive is packed with the permissions of the user', async t => {
    const directory = join(top, 'packed')
    mkdirSync(directory, { mode: 0o700 })
    writeFileSync(join(directory, 'kept.txt'), 'kept', { mode: 0o600 })
    for (const path of [directory, join(directory, 'kept.txt')]) chownSync(path, one.user.uid, one.user.gid)
    const project = await stage.createProject('packed', { deployPath: directory, runAs: 'nobody' })
    const reply = await stage.client.send('GET', `/api/migration/export?projects=${project.id}`)
    t.equal(reply.status, 200)
    t.match(reply.text, `artifacts/${project.id}.zip`)
  })

  t.test('refuses a target that the user cannot create or write', async t => {
    const closed = await stage.createProject('closed', { deployPath: join(top, 'of-root', 'site'), runAs: 'nobody' })
    const { last, lines } = await push(stage, { ...one, project: closed }, { a: 'a' })
    t.match(last, { status: 'failed' })
    t.match(lines.join('\n'), /Cannot create the target/)
    t.notOk(existsSync(join(top, 'of-root')))
  })

  t.test('a cancel ends the script of the user and all its processes', async t => {
    const pushing = push(stage, one, { 'index.html': 'x' }, { preDeploy: 'sleep 600 & echo $! > cancelled; wait' })
    const file = join(one.directory, 'cancelled')
    await until(() => existsSync(file) && readFileSync(file, 'utf8') !== '')
    const { body: running } = await stage.client.get(`/api/logs?projectId=${one.project.id}&status=running`)
    t.equal((await stage.client.post(`/api/deployments/${running[0].id}/cancel`)).status, 200)
    t.match((await pushing).last, { status: 'failed' })
    t.notOk(existsSync(`/proc/${readFileSync(file, 'utf8').trim()}/cwd`), 'its child process has ended')
  })
})
