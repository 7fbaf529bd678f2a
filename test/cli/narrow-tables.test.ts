import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { main } from '../../lib/cli/entry.js'
import { widthOf } from '../../lib/cli/terminal/columns.js'
import { startFleet } from '../support/fleet-on-server.js'
import { bareEnvironment } from '../support/svc.js'
import type { Host } from '../../lib/cli/host.js'

const columns = 80

/** Runs a command whose output is a terminal of 80 columns, or a pipe. Returns its lines from the header of the table on. */
async function tableOf(line: string, header: RegExp, { cwd, env, isTTY }: Screen): Promise<string[]> {
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
}

const long = (word: string): string => `${word}-with-a-name-that-${'goes-on-and-'.repeat(4)}ends`

t.test('every table fits on 80 columns, whatever the names, and a pipe gets them whole', async t => {
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
    const shown = await tableOf(line, header, { cwd, env, isTTY: true })
    t.ok(shown.length > 1, line)
    for (const each of shown) t.ok(widthOf(each) <= columns, `${line}: ${widthOf(each)} columns: ${each}`)
    const piped = await tableOf(line, header, { cwd, env, isTTY: false })
    t.notMatch(piped.join('\n'), /…( |$)/m, `${line} is whole in a pipe`)
  }

  const [head = '', ...rows] = await tableOf('list', /NAME/, { cwd, env, isTTY: true })
  t.match(head, /^NAME/, 'an id does not take the room of names')
  t.match(rows.join('\n'), /^forum-with-a-name-t…/m)
  t.match((await tableOf('list', /NAME/, { cwd, env, isTTY: false })).join('\n'), `${forum.id}  ${name}`)
  const settings = await tableOf(`projects show ${forum.id}`, /^FIELD/, { cwd, env, isTTY: true })
  t.match(settings.map(each => each.slice(20).trim()).join(''), long('script'), 'a long setting continues below')
})
