import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { makeBareRoot } from '../../release/bare-root.js'
import { top } from '../document.js'
import { startServed } from '../../support/served.js'
import type { Job, Step } from './jobs.js'
import { systems, type System } from './systems.js'

/*
 * Runs the files of docs/ci in its own namespaces (`unshare --net --mount`): there is no network, only a real server.
 * The root of a job contains Node, npm and a shell, but no git, bash or curl; it is read-only except /tmp. Arguments:
 * the unpacked bundle of the client, and an empty directory. Prints the results as JSON.
 */

const [client = '', directory = ''] = process.argv.slice(2)
const run = (program: string, ...words: string[]): string => {
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${words.join(' ')}: ${stderr}`)
  return stdout.trim()
}
run('ip', 'link', 'set', 'lo', 'up')
const root = join(directory, 'root')
const work = join(root, 'tmp/work')
// Node looks for a program in the PATH that the program is given.
const chroot = run('which', 'chroot')
const npm = dirname(dirname(realpathSync(run('which', 'npm'))))
makeBareRoot({
  root,
  programs: { '/bin/node': process.execPath, '/bin/sh': '/bin/sh', '/usr/bin/env': '/usr/bin/env' },
  directories: { '/opt/npm': npm }
})
// A step finds npm as in an image of Node: by its name.
mkdirSync(join(root, 'tmp/bin'))
writeFileSync(join(root, 'tmp/bin/npm'), '#!/bin/sh\nexec node /opt/npm/bin/npm-cli.js "$@"\n', { mode: 0o755 })

const server = await startServed({
  command: [process.execPath, join(top, 'bin/svc.js'), 'serve', '--port', '0'],
  cwd: directory,
  env: { PATH: process.env['PATH'] as string, SVC_HOME: join(directory, 'home'), HOME: directory }
})

async function api(method: string, path: string, body?: unknown): Promise<any> {
  const headers = { authorization: `Bearer ${server.adminToken}`, 'content-type': 'application/json' }
  const answer = await fetch(`${server.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  return await answer.json()
}

/** Writes the repository of a site that is built with npm, prepared as docs/ci.md describes. */
function checkout({ files, client: place }: System, projectId: string): void {
  rmSync(work, { recursive: true, force: true })
  rmSync(`${work}@tmp`, { recursive: true, force: true })
  mkdirSync(`${work}@tmp`, { recursive: true })
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(work, path)), { recursive: true })
    writeFileSync(join(work, path), text)
  }
  put('package.json', JSON.stringify({ name: 'shop', version: '1.0.0', scripts: { build: 'node build.js' } }))
  put(
    'package-lock.json',
    JSON.stringify({
      name: 'shop',
      version: '1.0.0',
      lockfileVersion: 3,
      packages: { '': { name: 'shop', version: '1.0.0' } }
    })
  )
  put(
    'build.js',
    `require('node:fs').mkdirSync('dist'); require('node:fs').writeFileSync('dist/index.html', 'built by ' + (process.env.CI || 'hand'))`
  )
  put('svc.config.json', JSON.stringify({ projectId, serverUrl: server.url, outputDir: 'dist' }))
  for (const [from, to] of Object.entries(files)) put(to, readFileSync(join(top, 'docs/ci', from), 'utf8'))
  cpSync(client, join(work, place), { recursive: true })
  run('chown', '-R', '65534:65534', work, `${work}@tmp`)
}

interface Outcome {
  code: number | null
  said: string
}

function runStep({ words, env }: Step, surrounding: Record<string, string>): Outcome {
  const base = { PATH: '/bin:/usr/bin:/tmp/bin', HOME: '/tmp/home' }
  const inside = ['--userspec=65534:65534', root, '/bin/sh', '-c', 'cd /tmp/work && exec "$@"', 'sh', ...words]
  const { status, stdout, stderr } = spawnSync(chroot, inside, {
    encoding: 'utf8',
    env: { ...base, ...surrounding, ...env }
  })
  return { code: status, said: stdout + stderr }
}

/**
 * Runs each job in its own checkout, with the files that the previous one passed on. Stops at the first failed step.
 */
function runJobs(jobs: Job[], system: System, projectId: string): Outcome {
  let said = ''
  const carried = join(directory, 'carried')
  rmSync(carried, { recursive: true, force: true })
  for (const { steps, carries } of jobs) {
    checkout(system, projectId)
    if (existsSync(carried)) run('cp', '-a', `${carried}/.`, work)
    for (const step of steps) {
      const outcome = runStep(step, system.env)
      said += outcome.said
      if (outcome.code !== 0) return { code: outcome.code, said }
    }
    for (const path of carries) {
      mkdirSync(dirname(join(carried, path)), { recursive: true })
      run('cp', '-a', join(work, path), join(carried, path))
    }
  }
  return { code: 0, said }
}

async function tryOut(name: string, system: System) {
  const target = join(directory, `www-${system.secret}-${name.replaceAll(' ', '')}`)
  const { project } = await api('POST', '/api/projects', { name, deployPath: target })
  checkout(system, project.id)
  const read = (path: string): string => readFileSync(join(work, path), 'utf8')
  const jobsWith = (token: string): Job[] =>
    system.jobs({
      read,
      secret: asked => {
        if (asked !== system.secret) throw new Error(`${name} has no secret ${asked}`)
        return token
      }
    })
  mkdirSync(join(root, 'tmp/home'), { recursive: true })
  chmodSync(join(root, 'tmp/home'), 0o777)
  const done = runJobs(jobsWith(project.token), system, project.id)
  const deployed = existsSync(join(target, 'index.html')) ? readFileSync(join(target, 'index.html'), 'utf8') : null
  const files = existsSync(target) ? readdirSync(target, { recursive: true }) : []
  const summary = summaryOf(system)
  // The last step is the push; its work tree still exists.
  const refused = runStep(
    jobsWith(`${project.token.slice(0, -4)}zzzz`)
      .at(-1)
      ?.steps.at(-1) as Step,
    system.env
  )
  const records = await api('GET', `/api/logs?projectId=${project.id}`)
  return { refused, done, deployed, files, records, saysToken: done.said.includes(project.token), summary }
}

function summaryOf({ env }: System): string | null {
  const path = env['GITHUB_STEP_SUMMARY']
  return path === undefined || !existsSync(join(root, path)) ? null : readFileSync(join(root, path), 'utf8')
}

try {
  const seen: Record<string, unknown> = {}
  for (const [name, system] of Object.entries(systems)) seen[name] = await tryOut(name, system)
  console.log(JSON.stringify(seen))
} finally {
  await server.stop()
}
