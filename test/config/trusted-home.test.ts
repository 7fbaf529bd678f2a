import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { refuseLooseHome } from '../../lib/config/trusted-home.js'

const noModes = process.getuid === undefined && 'Windows has other rights'
const notRoot = process.getuid?.() !== 0 && 'only root can give files away'
const [someone, another] = [65_534, 65_533]

/** A data directory in a sticky one, and what may be done to it. */
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
  /** What is refused, and how that is cured; null: nothing is. */
  refused: RegExp | null
  skip?: string | false
}

const mode = (name: string, bits: number) => (home: string) => chmodSync(join(home, name), bits)
const give = (uid: number, ...names: string[]) => (home: string) => names.forEach(name => chownSync(join(home, name), uid, uid))
const all = ['', 'deployments', 'config.json', 'svc.db']

const cases: Case[] = [
  { what: 'it is its owner’s alone', change: () => {}, refused: null },
  { what: 'others may read', change: home => ['', 'config.json'].forEach(name => chmodSync(join(home, name), 0o755)), refused: null },
  { what: 'others may write to it', change: mode('', 0o777), refused: /other users may write to ".*\/home" \(mode 0777\)\. Run "chmod go-w .*\/home"/ },
  { what: 'its group may', change: mode('', 0o770), refused: /mode 0770/ },
  { what: 'others may write to config.json', change: mode('config.json', 0o666), refused: /".*\/config\.json" \(mode 0666\)\. Run "chmod go-w .*\/config\.json"/ },
  { what: 'others may write to the key', change: home => { writeFileSync(join(home, 'variables.key'), 'x'); chmodSync(join(home, 'variables.key'), 0o666) }, refused: /variables\.key" \(mode 0666\)/ },
  { what: 'the group may', change: mode('config.json', 0o660), refused: /config\.json" \(mode 0660\)/ },
  { what: 'others may write to the database', change: mode('svc.db', 0o606), refused: /svc\.db" \(mode 0606\)/ },
  { what: 'others may write to deployments', change: mode('deployments', 0o777), refused: /deployments" \(mode 0777\)/ },
  { what: 'others may write to the directory above', change: mode('..', 0o777), refused: /other users may write to "\/.*svc-trusted-\w+" \(mode 0777\)/ },
  { what: 'that is sticky', change: mode('..', 0o1777), refused: null },
  {
    what: 'config.json is a link to a file that others may write to',
    change(home) {
      writeFileSync(join(home, '../linked.json'), '{}')
      chmodSync(join(home, '../linked.json'), 0o666)
      rmSync(join(home, 'config.json'))
      symlinkSync('../linked.json', join(home, 'config.json'))
    },
    refused: /linked\.json" \(mode 0666\)/
  },
  { what: 'root works on a service user’s directory', change: give(someone, ...all), refused: null, skip: notRoot },
  { what: 'where some of it is root’s', change: give(someone, '', 'deployments'), refused: null, skip: notRoot },
  { what: 'but config.json is a third one’s', change: home => (give(someone, ...all)(home), give(another, 'config.json')(home)), refused: /config\.json" belongs to the user 65533\. Run "chown 65534/, skip: notRoot },
  { what: 'config.json of another user in root’s directory', change: give(someone, 'config.json'), refused: /config\.json" belongs to the user 65534\. Run "chown 0/, skip: notRoot }
]

t.test('a data directory that others could change is refused, naming the cure', { skip: noModes }, async t => {
  for (const { what, change, refused, skip = false } of cases) {
    await t.test(what, { skip }, async t => {
      const home = aHome(t)
      change(home)
      if (refused === null) return void (await t.resolves(refuseLooseHome(home)))
      await t.rejects(refuseLooseHome(home), { code: 'unsafe_home', message: /^The data directory ".*" cannot be trusted: .*, or choose another with SVC_HOME$/ })
      await t.rejects(refuseLooseHome(home), { message: refused })
    })
  }
})
