import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { cannotIsolate } from '../support/namespaces.js'
import { makePackage } from './bundle.js'
import { cannotBuildDeb } from './deb.js'

/*
 * What the package contains is seen on an installed one: dpkg itself installs, upgrades, removes and purges it in an
 * overlay over this machine's root directory (debian-root.ts), because that needs no image and runs the maintainer
 * scripts as they run elsewhere. `dpkg --root` would need a whole system to run them in. An overlay needs root. That two
 * builds give the same bytes is in bundle.test.ts.
 */

t.test('the package', { skip: cannotBuildDeb() }, async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-deb-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, 'svc.deb')
  writeFileSync(file, await makePackage())

  t.test('belongs to root, has no binary, and says what it needs', async t => {
    const list = execFileSync('dpkg-deb', ['-c', file], { encoding: 'utf8' }).trim().split('\n')
    t.ok(list.length > 500)
    const plain = /^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx) root\/root /
    t.same(
      list.filter(line => !plain.test(line)),
      []
    )
    t.notMatch(list.join('\n'), /\.node$|spawn-helper$/m)
    const fields = execFileSync('dpkg-deb', ['-f', file], { encoding: 'utf8' })
    t.match(fields, /^Architecture: all$/m)
    t.match(fields, /^Depends: nodejs \(>= 18\)/m)
  })

  t.test('is installed, upgraded, removed and purged', { skip: cannotIsolate() }, async t => {
    const work = join(directory, 'work')
    mkdirSync(work)
    const program = fileURLToPath(new URL('./debian-root.js', import.meta.url))
    const words = ['-u', 'NODE_OPTIONS', 'unshare', '--net', '--mount', process.execPath, program, file, work]
    const said = execFileSync('/usr/bin/env', words, { encoding: 'utf8', stdio: 'pipe' })
    const { installed, served, upgraded, removed, again, purged } = JSON.parse(said)

    t.same(installed.told, ['start'])
    t.match(installed.version, /^\d+\.\d+\.\d+$/)
    t.same(installed.home, { mode: '700', owner: 'svc' })
    t.match(installed.user, /:\/var\/lib\/svc:\/usr\/sbin\/nologin$/)
    t.ok(installed.isEnabled)
    t.equal(installed.printed, installed.unit, 'svc systemd prints the unit')
    t.ok(installed.manual)
    for (const name of ['copyright', 'changelog.gz', 'changelog.Debian.gz']) t.ok(installed.documents.includes(name))
    t.equal(installed.checked, '', 'dpkg --verify')

    t.equal(served.url, 'http://127.0.0.1:5431')
    t.match(served.health, { status: 'ok' })
    t.ok(served.modules > 10)
    t.same(served.missing, [])
    t.equal(served.ended, 0)

    t.same(upgraded.running, ['stop', 'start'], 'an upgrade starts what ran')
    t.same(upgraded.stopped, ['stop'], 'and nothing else')
    t.same(upgraded.config, { mode: '600', owner: 'svc' })
    t.same(removed, { told: ['stop'], files: [], config: upgraded.config })
    t.same(again, { told: ['start'], config: upgraded.config })
    t.same(purged.told, ['stop'])
    t.same(purged.left, [])
    t.equal(purged.user, installed.user, 'deployed sites belong to it')
  })
})
