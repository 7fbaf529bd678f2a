import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { main } from '../../lib/cli/entry.js'
import { widthOf } from '../../lib/cli/terminal/columns.js'
import { startFleet } from '../support/fleet-on-server.js'
import { bareEnvironment } from '../support/svc.js'
import type { Host } from '../../lib/cli/terminal/output.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

const widths = [80, 60]

/** Runs a command whose output is a terminal, or a pipe. Returns its lines from the header of the table on. */
async function tableOf(line: string, header: RegExp, { cwd, env, isTTY, columns = 80 }: Screen): Promise<string[]> {
  const stdout = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY, columns })
  const host = {
    env: { ...bareEnvironment(cwd, env), NO_COLOR: '1' },
    cwd: () => cwd,
    stdin: process.stdin,
    stdout,
    stderr: new PassThrough(),
    on: () => {},
    off: () => {}
  }
  t.equal(await main(line.split(' '), { ...host, stdin: new PassThrough() } as unknown as Host), 0, line)
  const lines = String(stdout.read()).trimEnd().split('\n')
  const from = lines.findIndex(each => header.test(each))
  t.not(from, -1, `${line}: ${lines.join('\n')}`)
  return lines.slice(from)
}

interface Screen {
  cwd: string
  env: Record<string, string>
  isTTY: boolean
  columns?: number
}

const long = (word: string): string => `${word}-with-a-name-that-${'goes-on-and-'.repeat(4)}ends`

t.test('every table fits on a narrow terminal, whatever the names, and a pipe gets them whole', async t => {
  const { stage, shop, env } = await startFleet(t, ['web-1'])
  const cwd = stage.sites
  const name = long('forum')
  const forum = await stage.createProject(name, { env: long('env') })
  mkdirSync(join(cwd, 'site'))
  writeFileSync(join(cwd, 'site/index.html'), 'one')
  const deployEnv = { ...env, SVC_DEPLOY_TOKEN: forum.token }
  const ran = (line: string, given = env) =>
    main(line.split(' '), {
      env: bareEnvironment(cwd, given),
      cwd: () => cwd,
      stdin: new PassThrough(),
      stdout: new PassThrough(),
      stderr: new PassThrough(),
      on: () => {},
      off: () => {}
    } as unknown as Host)
  t.equal(
    await ran(
      `push --project ${forum.id} --out site --witness off -m message-of-fifty-characters-that-is-shown-whole-here`,
      deployEnv
    ),
    0
  )
  const post = stage.client.post
  await post('/api/tokens', {
    name: long('token'),
    role: 'deployer',
    projectIds: [forum.id],
    allowedIps: ['10.0.0.0/8']
  })
  await post('/api/enrollments', { name: 'web-2', labels: { zone: 'a'.repeat(60), rack: 'b'.repeat(60) } })
  await stage.client.patch('/api/nodes/web-1', { labels: { zone: 'a'.repeat(60), rack: 'b'.repeat(60) } })
  await stage.client.put(`/api/projects/${forum.id}/lock`, { reason: `for ${long('reason')}` })
  await stage.client.patch(`/api/projects/${forum.id}/variables`, {
    variables: [{ name: `NAME_${'LONG_'.repeat(12)}`, value: long('value') }]
  })
  await stage.client.put(`/api/projects/${forum.id}`, { postDeployScript: `echo ${long('script')} ${long('script')}` })

  const tables: Array<[line: string, header: RegExp]> = [
    ['list', /NAME/],
    [`status ${forum.id}`, /^DEPLOYMENT/],
    ['token list', /^NAME/],
    ['access report', /^PROJECT/],
    ['fleet nodes', /^NODE/],
    ['fleet node web-1', /^PROJECT/],
    [`fleet place ${shop.id}`, /^NODE/],
    ['fleet enrollments', /^ID/],
    ['locks', /^KIND/],
    ['audit list', /^NUMBER|TIME/],
    [`env list --project ${forum.id}`, /^NAME/],
    ['config', /^KEY/],
    [`projects show ${forum.id}`, /^FIELD/]
  ]
  for (const [line, header] of tables) {
    for (const columns of widths) {
      const shown = await tableOf(line, header, { cwd, env, isTTY: true, columns })
      t.ok(shown.length > 1, line)
      for (const each of shown) t.ok(widthOf(each) <= columns, `${line}: ${widthOf(each)} columns: ${each}`)
    }
    const piped = await tableOf(line, header, { cwd, env, isTTY: false })
    t.notMatch(piped.join('\n'), /…( |$)/m, `${line} is whole in a pipe`)
  }

  const [head = '', ...rows] = await tableOf('list', /NAME/, { cwd, env, isTTY: true })
  t.match(head, /^NAME/, 'an id does not take the room of names')
  t.match(rows.join('\n'), /^forum-with-a-name-that-goes-on…/m)
  t.match((await tableOf('list', /NAME/, { cwd, env, isTTY: false })).join('\n'), `${forum.id}  ${name}`)
  const settings = await tableOf(`projects show ${forum.id}`, /^FIELD/, { cwd, env, isTTY: true })
  t.match(settings.map(each => each.slice(20).trim()).join(''), long('script'), 'a long setting continues below')
})

t.test('what people need of a table survives on a narrow terminal', async t => {
  const nodes = ['edge-eu-west-1', 'edge-eu-west-2']
  const { stage, shop, env } = await startFleet(t, nodes)
  const cwd = stage.sites
  const name = 'storefront-production-eu-west-1'
  const { id, token } = await stage.createProject(name, { env: 'production' })
  const policy = { approval: { count: 1, roles: ['operator'], notPusher: true, hours: 72 } }
  const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'one' }) }
  await stage.as(token).upload([
    ['projectId', id],
    ['message', 'Search by author and by title'],
    ['file', file]
  ])
  await stage.client.put(`/api/projects/${id}`, { policy })
  void stage.as(token).upload([
    ['projectId', id],
    ['message', 'Second'],
    ['file', file]
  ])
  const newest = async (): Promise<{ id: string; heldFor: string | null }> =>
    (await stage.client.get(`/api/logs?projectId=${id}`)).body[0]
  await until(async () => (await newest()).heldFor === 'approval')
  const waiting = (await newest()).id
  await stage.client.put(`/api/projects/${id}/lock`, { reason: 'Migration of the search index, ask Ana first' })
  await stage.client.post('/api/tokens', { name: 'pipeline-of-the-storefront', role: 'deployer', projectIds: [id] })
  await stage.client.post('/api/notification-targets', { name: 'Operations', url: 'http://127.0.0.1:9/' })

  const needs: Array<[line: string, header: RegExp, needed: Array<string | RegExp>]> = [
    ['list', /^NAME/, [name, 'waits for approval until', 'locked', 'shop']],
    [`status ${id}`, /^DEPLOYMENT/, [waiting, 'waiting', 'Second', 'Search by autho']],
    ['fleet nodes', /^NODE/, nodes],
    [`fleet place ${shop.id}`, /^NODE/, nodes],
    ['locks', /^KIND/, ['storefront-prod', ' UTC', 'Migration', 'first']],
    ['token list', /^NAME/, ['pipeline-of-the-', 'deployer', 'expires in 9']],
    ['audit list', /TIME/, ['deployment.uplo', 'project.lock', /\dZ /]],
    ['notify list', /^NAME/, ['Operations']]
  ]
  for (const [line, header, needed] of needs) {
    for (const columns of widths) {
      const shown = (await tableOf(line, header, { cwd, env, isTTY: true, columns })).join('\n')
      for (const each of needed) t.match(shown, each, `${line} at ${columns} columns`)
    }
  }
  const [, row = '', more = ''] = await tableOf('list', /^NAME/, { cwd, env, isTTY: true, columns: 60 })
  t.match(`${row} ${more.trim()}`, /until \d{4}-\d\d-\d\d \d\d:\d\d/, 'the deadline is whole')
})
