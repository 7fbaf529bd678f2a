import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { readGit } from '../../../lib/cli/pack/git.js'
import { standIn } from '../../support/stand-in.js'
import { startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { noPty, openTerminal } from '../../support/web-terminal.js'
import { zipOf } from '../../support/zip.js'
import { until } from '../../support/until.js'

/*
 * Every place that starts a program. None passes it a token, in its environment or in its arguments (which a process
 * list shows to everybody), nor systemd's variables for svc. A new place must be listed here and tested.
 */
const sites: Record<string, string> = {
  'cli/commands/deployments.ts':
    'spawn: xdg-open or its like with the inherited environment; tried in test/cli/commands/deployments.test.ts',
  'cli/pack/git.ts': 'execFile: git, tried below',
  'cli/pack/signers.ts': 'spawn: ssh-keygen with PATH, HOME and what ssh-agent and its questions need',
  'cli/service/running.ts': 'runProcess: systemd-notify, tried below',
  'cli/service/supervision.ts':
    'spawn: svc itself by another runtime; it is configured by its environment. runProcess: pm2, which starts svc. Both tried below',
  'cli/project-options.ts': 'execFile: useradd, without a variable of svc; tried in test/cli/project-options.test.ts',
  'deploy/gate.ts':
    'runProcess: commands of checks, with the environment of the scripts; tried in test/deploy/gate.test.ts',
  'deploy/scripts/scripts.ts': 'runProcess: scripts of deployments, tried below',
  'api/client.ts': 'execFileSync: a text, the script that a new machine runs; svc itself starts nothing there',
  'core/install/sync-program.ts': 'runProcess: sync with PATH alone',
  'core/proc/helper.ts':
    'spawn: a module of svc with the rights of another user, without an environment; tried in test/core/proc/helper.test.ts',
  'core/proc/identity.ts': 'execFile: getent and setpriv with PATH alone',
  'core/proc/kept-program.ts':
    'spawn: the agent of a hub, which is svc itself; it gets a token for its enrollment and no other secret of svc',
  'core/proc/run.ts': 'spawn: what the others ask for. execFile: mkfifo with PATH alone',
  'core/proc/stop.ts': 'spawn: taskkill (Windows) without an environment',
  'core/proc/pty.ts': 'node-pty: what operate/terminal/sessions.ts asks for',
  'operate/machine/resources.ts': 'runProcess: vm_stat (macOS) with LC_ALL alone',
  'operate/pm2.ts': 'runProcess: pm2 jlist, tried below',
  'operate/terminal/sessions.ts': 'node-pty: the shell, tried below'
}

t.test('every place that starts a program is listed', async t => {
  const top = fileURLToPath(new URL('../../../../lib/', import.meta.url))
  const starts =
    /\b(spawn|spawnSync|exec|execSync|execFile|execFileSync|fork|runProcess)\((?!.*\): )|\bmodule\.spawn\(|\bpromisify\(exec/
  const found = readdirSync(top, { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.ts'))
    .filter(path => {
      const code = readFileSync(join(top, path), 'utf8')
        .split('\n')
        .filter(line => !/^\s*(\*|\/\*|\/\/)/.test(line) && !/\.exec\(/.test(line))
      return code.some(line => starts.test(line))
    })
  t.strictSame(found.sort(), Object.keys(sites).sort())
  t.match(readFileSync(join(top, 'core/proc/stop.ts'), 'utf8'), /spawn\('taskkill', words, \{ env: \{\}/)
  t.match(readFileSync(join(top, 'core/install/sync-program.ts'), 'utf8'), /env: \{ PATH: systemPath \}/)
  t.match(readFileSync(join(top, 'core/proc/run.ts'), 'utf8'), /'mkfifo', .*\{ env: \{ PATH: systemPath \} \}/)
  t.match(readFileSync(join(top, 'core/proc/helper.ts'), 'utf8'), /^ +env: \{\},$/m)
  t.match(readFileSync(join(top, 'operate/machine/resources.ts'), 'utf8'), /env: \{ LC_ALL: 'C' \}/)
})

const secrets: Record<string, string> = {
  ADMIN_TOKEN: 'hunter2-admin-token-0123456789',
  SVC_TOKEN: 'hunter2-svc',
  SVC_DEPLOY_TOKEN: 'hunter2-deploy',
  SVC_NEW_ADMIN_TOKEN: 'hunter2-new'
}
const ofSystemd: Record<string, string> = {
  NOTIFY_SOCKET: '/nowhere/notify',
  WATCHDOG_USEC: '1000000',
  WATCHDOG_PID: '1',
  LISTEN_FDS: '1',
  LISTEN_PID: '1',
  LISTEN_FDNAMES: 'x',
  INVOCATION_ID: 'ofsystemd',
  JOURNAL_STREAM: '8:1',
  CREDENTIALS_DIRECTORY: '/run/credentials/svc',
  ENCRYPTED_CREDENTIALS_DIRECTORY: '/x',
  MAINPID: '1',
  MANAGERPID: '1',
  SYSTEMD_EXEC_PID: '1',
  MEMORY_PRESSURE_WATCH: '/x',
  MEMORY_PRESSURE_WRITE: 'x',
  STATE_DIRECTORY: '/var/lib/svc',
  RUNTIME_DIRECTORY: '/run/svc'
}

/** A directory into which a started program writes its environment and its arguments. */
function places(t: { teardown(work: () => unknown): void }) {
  const directory = mkdtempSync(join(tmpdir(), 'svc-spawn-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  /** A shell script that writes them, and then runs `rest`. */
  const dump = (name: string, rest = ':'): string =>
    `env -0 > "${directory}/${name}.env.part"; tr '\\0' ' ' < /proc/$$/cmdline > "${directory}/${name}.words"
mv "${directory}/${name}.env.part" "${directory}/${name}.env"
${rest}`
  async function seen(name: string): Promise<{ names: string[]; text: string }> {
    await until(() => existsSync(join(directory, `${name}.env`)))
    const entries = readFileSync(join(directory, `${name}.env`), 'utf8')
      .split('\0')
      .filter(Boolean)
    const words = readFileSync(join(directory, `${name}.words`), 'utf8')
    return { names: entries.map(entry => entry.slice(0, entry.indexOf('='))), text: [...entries, words].join('\n') }
  }
  return { dump, seen }
}

const skip = !existsSync('/proc/self/cmdline') && 'there is no /proc'

t.test('a script, a shell and pm2 jlist get no token, and no variables of systemd', { skip }, async t => {
  const { dump, seen } = places(t)
  const pm2 = standIn(t, 'pm2', dump('jlist', 'echo "[]"'))
  const PATH = `${pm2}:${process.env['PATH']}`
  // svc asks pm2 only if its daemon listens.
  const daemon = createServer().listen(join(pm2, 'rpc.sock'))
  t.teardown(() => daemon.close())
  const stage = await startServer(t, {
    environment: { ...ofSystemd, ...secrets, PATH, PM2_HOME: pm2, INHERITED: 'yes', SHELL: '/bin/sh' }
  })
  const project = await stage.createProject('shop', {
    preDeployScript: dump('pre'),
    postDeployScript: dump('post'),
    postDeployAsync: true
  })
  const zip = { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }
  await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', zip]
  ])
  await stage.client.get('/api/pm2/apps')
  const names = ['pre', 'post', 'jlist']
  if (noPty) t.comment(`the shell is skipped: ${noPty}`)
  else {
    const terminal = await openTerminal(stage)
    terminal.type(`${dump('shell', 'echo d"one"').replaceAll('\n', '; ')}\n`)
    await seen('shell')
    names.push('shell')
  }
  for (const name of names) {
    const { names, text } = await seen(name)
    t.notMatch(text, /hunter2/, `${name}: no token`)
    t.strictSame(
      names.filter(variable => variable in ofSystemd),
      [],
      `${name}: nothing of systemd`
    )
    t.ok(names.includes('INHERITED'), `${name}: all else`)
    t.strictSame(
      names.filter(variable => /TOKEN/.test(variable)),
      [],
      name
    )
  }
})

t.test('git gets no token', { skip }, async t => {
  const { dump, seen } = places(t)
  const git = standIn(t, 'git', dump('git', 'echo "A subject"'))
  t.match(
    await readGit(t.testdir({}), { ...secrets, ...ofSystemd, PATH: `${git}:${process.env['PATH']}`, INHERITED: 'yes' }),
    { commit: 'A subject' }
  )
  const { names, text } = await seen('git')
  t.notMatch(text, /hunter2/)
  t.ok(names.includes('INHERITED'))
})

t.test('systemd-notify gets its socket, and no token', { skip }, async t => {
  const { dump, seen } = places(t)
  const bin = standIn(t, 'systemd-notify', dump('notify'))
  const cwd = t.testdir({})
  const env = {
    ...secrets,
    PATH: `${bin}:${process.env['PATH']}`,
    NOTIFY_SOCKET: join(cwd, 'notify'),
    CREDENTIALS_DIRECTORY: '/run/credentials/svc'
  }
  await svc(['serve', '--port', '0'], { cwd, env, interruptAt: /Data directory/ })
  const { names, text } = await seen('notify')
  t.notMatch(text, /hunter2/)
  t.ok(names.includes('NOTIFY_SOCKET'))
  t.notOk(names.includes('CREDENTIALS_DIRECTORY'))
})

t.test('pm2 gets the configuration of svc, but no token, and its file contains none', { skip }, async t => {
  const { dump, seen } = places(t)
  const bin = standIn(t, 'pm2', `if [ "$1" = jlist ]; then ${dump('list', 'echo "[]"')}\nelse ${dump('start')}\nfi`)
  const cwd = t.testdir({})
  // svc asks pm2 only if its daemon listens.
  const daemon = createServer().listen(join(bin, 'rpc.sock'))
  t.teardown(() => daemon.close())
  const PATH = `${bin}:${process.env['PATH']}`
  const env = { ...secrets, ...ofSystemd, PATH, PM2_HOME: bin, SVC_PUBLIC_URL: 'https://deploy.test' }
  t.equal((await svc(['serve', '--pm2', '--port', '0'], { cwd, env })).code, 1, 'this pm2 starts nothing')
  for (const name of ['list', 'start']) {
    const { names, text } = await seen(name)
    t.notMatch(text, /hunter2/, name)
    t.strictSame(
      names.filter(variable => variable in ofSystemd),
      [],
      name
    )
    t.equal(names.includes('SVC_PUBLIC_URL'), name === 'start', name)
  }
  t.notMatch(readFileSync(join(cwd, '.svc/pm2/ecosystem.config.cjs'), 'utf8'), /hunter2/)
})

t.test('another runtime gets the configuration of svc, and no token in its arguments', { skip }, async t => {
  const { dump, seen } = places(t)
  const bin = standIn(t, 'bun', dump('bun'))
  const env = { ...secrets, PATH: `${bin}:${process.env['PATH']}` }
  await svc(['serve', '--runtime', 'bun', '--port', '0'], { cwd: t.testdir({}), env })
  const { names, text } = await seen('bun')
  t.ok(names.includes('ADMIN_TOKEN'), 'it is svc')
  t.notMatch(text.split('\n').at(-1), /hunter2/)
})
