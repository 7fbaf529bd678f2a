import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { open, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createOwnFiles } from '../../../lib/logs/read/own-files.js'
import { createRandom } from '../../support/random.js'
import { firstSeed } from '../../support/thorough.js'

const root = realpathSync(
  t.testdir({
    home: {
      'config.json': '{}',
      keys: { 'server.ed25519': 'key' },
      node: { 'agent.json': '{}', keys: { 'agent.ed25519': 'key' }, deployments: { 'dep_b.log': 'output' } },
      deployments: { 'dep_a.zip': 'zip', 'dep_a.log': 'output' },
      tmp: { upload: 'zip' },
      pm2: { 'out.log': 'out', 'ecosystem.config.cjs': 'x' }
    },
    'home.before-2026': { 'config.json': '{}', keys: { 'server.ed25519': 'key' } },
    elsewhere: { password: 'x' },
    logs: {}
  })
)
const place = (...names: string[]): string => join(root, ...names)
const own = createOwnFiles({ homes: [place('home')], files: [place('elsewhere/password')] })

async function isOwn(path: string): Promise<boolean> {
  const handle = await open(path)
  try {
    return await own.has(await realpath(path), await handle.stat({ bigint: true }))
  } finally {
    await handle.close()
  }
}

const secret = [
  'home/config.json',
  'home/keys/server.ed25519',
  'home/node/agent.json',
  'home/node/keys/agent.ed25519',
  'home/deployments/dep_a.zip',
  'home/tmp/upload',
  'home/pm2/ecosystem.config.cjs',
  'home.before-2026/keys/server.ed25519',
  'elsewhere/password'
]
const shown = ['home/deployments/dep_a.log', 'home/node/deployments/dep_b.log', 'home/pm2/out.log']

t.test('knows its files by their path and by hard links', async t => {
  for (const [index, path] of secret.entries()) {
    t.equal(await isOwn(place(path)), true, path)
    linkSync(place(path), place(`logs/${index}.log`))
    t.equal(await isOwn(place(`logs/${index}.log`)), true, `a hard link to ${path}`)
  }
  for (const path of shown) t.equal(await isOwn(place(path)), false, path)
  writeFileSync(place('logs/site.log'), 'x')
  linkSync(place('logs/site.log'), place('logs/other.log'))
  t.equal(await isOwn(place('logs/other.log')), false, 'another file with two names')
})

t.test('knows files that are made, replaced and linked later', async t => {
  writeFileSync(place('home/new.key'), 'x')
  linkSync(place('home/new.key'), place('logs/new.log'))
  t.equal(await isOwn(place('logs/new.log')), true)
  rmSync(place('home/config.json'))
  writeFileSync(place('home/config.json.tmp'), '{}')
  renameSync(place('home/config.json.tmp'), place('home/config.json'))
  linkSync(place('home/config.json'), place('logs/replaced.log'))
  t.equal(await isOwn(place('logs/replaced.log')), true)
})

t.test('knows a directory that another disk or another name holds', async t => {
  mkdirSync(place('disk'))
  renameSync(place('home/deployments'), place('disk/deployments'))
  symlinkSync(place('disk/deployments'), place('home/deployments'))
  t.equal(await isOwn(place('disk/deployments/dep_a.zip')), true)
  t.equal(await isOwn(place('disk/deployments/dep_a.log')), false)
  t.equal(await own.hasPath(place('disk/deployments')), true)
  t.equal(await own.hasPath(place('disk')), false)
  renameSync(place('home'), place('moved'))
  t.equal(await isOwn(place('moved/keys/server.ed25519')), true, 'a data directory that was moved away')
  t.equal(await own.hasPath(place('moved/keys')), true)
  renameSync(place('moved'), place('home'))
})

t.test('knows files and directories behind bind mounts', async t => {
  const mounts: string[] = []
  t.teardown(() => mounts.forEach(path => void execFileSync('umount', [path])))
  const mount = (from: string, to: string): void => {
    execFileSync('mount', ['--bind', place(from), place(to)], { stdio: 'ignore' })
    mounts.push(place(to))
  }
  mkdirSync(place('mount'))
  writeFileSync(place('single.log'), '')
  try {
    mount('home', 'mount')
    mount('home/keys/server.ed25519', 'single.log')
  } catch {
    return t.comment('Skipped: this user may not mount')
  }
  t.equal((await stat(place('single.log'))).nlink, (await stat(place('home/keys/server.ed25519'))).nlink)
  for (const path of ['mount/config.json', 'mount/keys/server.ed25519', 'single.log'])
    t.equal(await isOwn(place(path)), true, path)
  t.equal(await isOwn(place('mount/pm2/out.log')), false)
  t.equal(await own.hasPath(place('mount/keys')), true)
})

t.test('seeded: knows its files after links, renames and copies in any order', async t => {
  const random = createRandom(firstSeed)
  const top = realpathSync(
    t.testdir({ home: { keys: { a: 'x' }, deployments: { 'dep_a.log': 'x', 'dep_a.zip': 'x' } }, logs: {} })
  )
  const at = (path: string): string => join(top, path)
  const files = createOwnFiles({ homes: [at('home')], files: [] })
  /** Every name so far, and whether its file is of svc itself. */
  const names = new Map([
    ['home/keys/a', true],
    ['home/deployments/dep_a.zip', true],
    ['home/deployments/dep_a.log', false]
  ])
  const done: string[] = []
  for (let n = 0; n < 60; n++) {
    const [name, isSecret] = random.oneOf([...names])
    const fresh = `logs/${n}`
    const outside = name.startsWith('logs/')
    const step = random.oneOf(['link', 'symlink', 'copy', 'new', ...(outside ? ['rename'] : [])])
    done.push(`${step} ${name} ${fresh}`)
    if (step === 'link') linkSync(at(name), at(fresh))
    else if (step === 'symlink') symlinkSync(at(name), at(fresh))
    else if (step === 'copy') writeFileSync(at(fresh), 'x')
    else if (step === 'new') writeFileSync(at(`home/keys/${n}`), 'x')
    else renameSync(at(name), at(fresh))
    if (step === 'rename') names.delete(name)
    names.set(step === 'new' ? `home/keys/${n}` : fresh, step === 'new' || (step !== 'copy' && isSecret))
    for (const [each, expected] of names) {
      const handle = await open(at(each)).catch(() => null)
      // A symbolic link to a name that was changed leads nowhere.
      if (handle === null) continue
      const found = await files.has(await realpath(at(each)), await handle.stat({ bigint: true }))
      await handle.close()
      if (found !== expected) t.fail(`seed ${firstSeed}: ${each} after ${done.join(', ')}`)
    }
  }
})
