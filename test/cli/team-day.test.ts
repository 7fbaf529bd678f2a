import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { AccessRole } from '../../lib/model/access.js'
import { serveShop } from '../support/shop.js'
import { svc } from '../support/svc.js'

/*
 * A day of a team: four people and programs work with their own tokens. Each succeeds in what its role permits, and is
 * refused the rest with a sentence that names the missing role.
 */

/** A command, the roles that succeed in it, and the refusal of the others. */
interface Task {
  words: string
  by: readonly AccessRole[]
  /** Part of the output of those who succeed. */
  says?: RegExp
  /** What the refused read, instead of the missing role. */
  refusal?: RegExp
}

const everybody = ['viewer', 'deployer', 'operator', 'admin'] as const
const [, ...deployers] = everybody
const operators = ['operator', 'admin'] as const
const admins = ['admin'] as const

const tasks: Task[] = [
  { words: 'whoami', by: everybody, says: /token "\w+": \w+ of (shop|all projects), expires in \d+ days/ },
  { words: 'list', by: everybody, says: /shop/ },
  { words: 'list --json', by: everybody, says: /"name": ?"shop"/ },
  { words: 'status', by: everybody, says: /DEPLOYMENT/ },
  { words: 'status --json', by: everybody, says: /"deployments"/ },
  { words: 'logs DEPLOYMENT', by: everybody, says: /extracted 1 file/ },
  { words: 'verify SHOP', by: everybody },
  { words: 'drift', by: everybody, says: /No file was edited/ },
  { words: 'locks', by: everybody },
  { words: 'projects show', by: everybody, says: /deployPath/ },
  { words: 'plan', by: deployers },
  { words: 'push', by: deployers, says: /success|Deployed/i },
  { words: 'rollback --to DEPLOYMENT --yes', by: operators },
  { words: 'undo --yes', by: operators },
  { words: 'repair --yes', by: operators },
  { words: 'lock --reason audit', by: operators },
  { words: 'unlock', by: operators },
  { words: 'maintenance on --reason disk', by: operators },
  { words: 'maintenance off', by: operators },
  { words: 'env list', by: operators },
  { words: 'lock --all --reason audit', by: admins, refusal: /requires the role "operator"|is limited to projects/ },
  { words: 'unlock --all', by: admins, refusal: /requires the role "operator"|is limited to projects/ },
  { words: 'env set COLOUR=blue', by: admins },
  { words: 'projects set shop --description Prices', by: admins },
  { words: 'projects token shop', by: admins, refusal: /is shown to the role "admin" only/ },
  { words: 'projects create other --path /srv/other-site', by: admins },
  { words: 'token list', by: admins },
  { words: 'token create another --role viewer', by: admins },
  { words: 'access report', by: admins }
]
const tooLow =
  /^error: Permission denied: the token "\w+" has the role "\w+"\. The request requires the role "\w+" or higher$/m

t.test('four roles work with their own tokens', async t => {
  const { cwd, server, shop, admin } = await serveShop(t)
  const forum = await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })
  const secrets = [server.adminToken, shop.token, forum.token]
  const site = join(cwd, 'site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'one')
  const config = { projectId: shop.id, serverUrl: server.url, ignore: ['svc.config.json'] }
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ ...config, outputDir: '.' }))

  const tokens = {} as Record<AccessRole, string>
  for (const role of everybody) {
    const limit = role === 'admin' ? [] : ['--project', 'shop']
    const made = await svc(['token', 'create', `my_${role}`, '--role', role, ...limit], admin)
    tokens[role] = made.stdout.trim()
  }
  /** Runs a command in the directory of the site. */
  const run = (role: AccessRole, words: string[]) => svc(words, { cwd: site, env: { SVC_TOKEN: tokens[role] } })
  t.match(await run('deployer', ['push']), { code: 0 })
  const [first] = await server.deployments(shop.id)
  const read = (words: string): string[] =>
    words
      .replace('DEPLOYMENT', first?.id as string)
      .replace('SHOP', shop.id)
      .split(' ')

  for (const role of everybody) {
    for (const { words, by, says = /./, refusal = tooLow } of tasks) {
      const { code, stdout, stderr } = await run(role, read(words))
      const what = `${role}: svc ${words}`
      const mayRead = role === 'admin' && words === 'projects token shop'
      for (const secret of secrets) if (!mayRead) t.notMatch(stdout + stderr, secret, what)
      if (by.some(each => each === role)) {
        t.equal(code, 0, `${what}: ${stderr}`)
        t.match(stdout + stderr, says, what)
        continue
      }
      t.match({ code, stdout, stderr }, { code: 1, stdout: '', stderr: refusal }, what)
    }
  }

  await t.test('doctor says what a limited token cannot check, and does not fail for it', async t => {
    const { stdout } = await run('operator', ['doctor', '--json'])
    const { findings } = JSON.parse(stdout) as { findings: Array<{ check: string; result: string; detail: string }> }
    const details = findings.find(({ check }) => check === 'Server details')
    t.match(details, { result: 'warning', detail: /not checked: .* is limited to projects/ })
  })

  await t.test('a project outside the scope does not exist', async t => {
    for (const role of ['viewer', 'deployer', 'operator'] as const) {
      for (const words of [
        ['status', forum.id],
        ['drift', forum.id],
        ['projects', 'show', 'forum']
      ]) {
        const refused = await run(role, words)
        t.match(refused, { code: 1, stderr: /Project not found/ }, `${role}: svc ${words.join(' ')}`)
        t.notMatch((await run(role, ['list'])).stdout, 'forum')
      }
    }
    t.match(await run('admin', ['status', forum.id]), { code: 0 })
  })

  await t.test('a deployer decides about its own deployments only', async t => {
    const held = async (role: AccessRole): Promise<string> => {
      const words = ['push', '--confirm', '10m']
      let said = ''
      await svc(words, {
        cwd: site,
        env: { SVC_TOKEN: tokens[role] },
        onOutput: text => void (said = text),
        interruptAt: /confirm/i
      })
      return /dep_[a-z0-9]{16}/.exec(said)?.[0] as string
    }
    writeFileSync(join(site, 'index.html'), 'two')
    const others = await held('operator')
    t.match(await run('deployer', ['confirm', others]), { code: 1, stderr: /did not start this deployment/ })
    t.match(await run('deployer', ['revert', others]), { code: 1, stderr: /did not start this deployment/ })
    t.match(await run('viewer', ['confirm', others]), { code: 1, stderr: tooLow })
    t.match(await run('operator', ['confirm', others]), { code: 0 })
    writeFileSync(join(site, 'index.html'), 'three')
    const own = await held('deployer')
    t.match(await run('deployer', ['confirm', own]), { code: 0 })
  })

  await t.test('the audit log names who did what', async t => {
    const { items } = await server.api<{ items: Array<{ actor: string; role: string; tokenName: string }> }>(
      'GET',
      '/api/audit?limit=500'
    )
    for (const role of ['deployer', 'operator', 'admin'])
      t.ok(
        items.some(entry => entry.actor === `token:my_${role}` && entry.role === role),
        role
      )
    t.notOk(
      items.some(({ tokenName }) => tokenName === 'my_viewer'),
      'a viewer changes nothing'
    )
  })

  await t.test('a token that ends is refused from the next command on', async t => {
    const rotated = await run('admin', ['token', 'rotate', 'my_deployer', '--overlap', '1h'])
    t.match(await run('deployer', ['list']), { code: 0 }, 'the earlier secret, in the overlap')
    tokens.deployer = rotated.stdout.trim()
    t.match(await run('deployer', ['list']), { code: 0 })
    t.match(await run('admin', ['token', 'revoke', 'my_deployer', '--yes']), { code: 0 })
    t.match(await run('deployer', ['list']), { code: 1, stdout: '', stderr: /revoked/ })
    t.match(await run('deployer', ['push']), { code: 1, stdout: '', stderr: /revoked/ })
  })
})
