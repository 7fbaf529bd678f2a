import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { refuseLooseHome } from '../../lib/config/trusted-home.js'
import { configSays } from '../support/sentences/config.js'
import { matching } from '../support/sentences/matching.js'

const noModes = process.getuid === undefined && 'Windows has no POSIX permissions'
const notRoot = process.getuid?.() !== 0 && 'only root can give files away'
const [someone, another] = [65_534, 65_533]

/** A data directory inside a sticky directory, and the changes to make to it. */
function aHome(t: { teardown(work: () => void): void }): string {
  const top = mkdtempSync(join(tmpdir(), 'svc-trusted-'))
  t.teardown(() => rmSync(top, { recursive: true, force: true }))
  const home = join(top, 'home')
  mkdirSync(join(home, 'deployments'), { recursive: true, mode: 0o700 })
  for (const name of ['config.json', 'svc.db']) writeFileSync(join(home, name), '{}', { mode: 0o600 })
  return home
}

interface Case {
  what: string
  change(home: string): void
  /** The expected reason and the expected advice; null if the directory is accepted. */
  refused: RegExp | null
  skip?: string | false
}

const mode = (name: string, bits: number) => (home: string) => chmodSync(join(home, name), bits)
const give =
  (uid: number, ...names: string[]) =>
  (home: string) =>
    names.forEach(name => chownSync(join(home, name), uid, uid))
const all = ['', 'deployments', 'config.json', 'svc.db']

const cases: Case[] = [
  { what: 'only the owner has access', change: () => {}, refused: null },
  {
    what: 'others have read access',
    change: home => ['', 'config.json'].forEach(name => chmodSync(join(home, name), 0o755)),
    refused: null
  },
  {
    what: 'others have write access',
    change: mode('', 0o777),
    refused: matching(configSays.othersMayWrite('.*/home', '0777'), /\. Run "chmod go-w .*\/home"/)
  },
  { what: 'its group has write access', change: mode('', 0o770), refused: /mode 0770/ },
  {
    what: 'others have write access to config.json',
    change: mode('config.json', 0o666),
    refused: /".*\/config\.json" \(mode 0666\)\. Run "chmod go-w .*\/config\.json"/
  },
  {
    what: 'others have write access to the key',
    change: home => {
      writeFileSync(join(home, 'variables.key'), 'x')
      chmodSync(join(home, 'variables.key'), 0o666)
    },
    refused: /variables\.key" \(mode 0666\)/
  },
  {
    what: 'the group has write access to config.json',
    change: mode('config.json', 0o660),
    refused: /config\.json" \(mode 0660\)/
  },
  {
    what: 'others have write access to the database',
    change: mode('svc.db', 0o606),
    refused: /svc\.db" \(mode 0606\)/
  },
  {
    what: 'others have write access to deployments',
    change: mode('deployments', 0o777),
    refused: /deployments" \(mode 0777\)/
  },
  {
    what: 'others have write access to the parent directory',
    change: mode('..', 0o777),
    refused: configSays.othersMayWrite('/.*svc-trusted-\\w+', '0777')
  },
  { what: 'others have write access to a sticky parent directory', change: mode('..', 0o1777), refused: null },
  {
    what: 'config.json is a link to a file that others can write',
    change(home) {
      writeFileSync(join(home, '../linked.json'), '{}')
      chmodSync(join(home, '../linked.json'), 0o666)
      rmSync(join(home, 'config.json'))
      symlinkSync('../linked.json', join(home, 'config.json'))
    },
    refused: /linked\.json" \(mode 0666\)/
  },
  { what: 'root uses the directory of a service user', change: give(someone, ...all), refused: null, skip: notRoot },
  {
    what: 'root uses the directory of a service user that contains files of root',
    change: give(someone, '', 'deployments'),
    refused: null,
    skip: notRoot
  },
  {
    what: 'root uses a directory with a config.json of a third user',
    change: home => (give(someone, ...all)(home), give(another, 'config.json')(home)),
    refused: matching(configSays.belongsTo('config.json', 65533), 'Run "chown 65534'),
    skip: notRoot
  },
  {
    what: 'root’s directory contains a config.json of another user',
    change: give(someone, 'config.json'),
    refused: matching(configSays.belongsTo('config.json', 65534), 'Run "chown 0'),
    skip: notRoot
  }
]

t.test('refuses a data directory that others could change, with advice', { skip: noModes }, async t => {
  for (const { what, change, refused, skip = false } of cases) {
    await t.test(what, { skip }, async t => {
      const home = aHome(t)
      change(home)
      if (refused === null) return void (await t.resolves(refuseLooseHome(home)))
      await t.rejects(refuseLooseHome(home), {
        code: 'unsafe_home',
        message: configSays.untrusted
      })
      await t.rejects(refuseLooseHome(home), { message: refused })
    })
  }
})
