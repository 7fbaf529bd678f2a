import t from 'tap'
import { auditedPackages, installedPackage, lockedPackages } from './dependencies.js'

const locked = lockedPackages()
const audited = auditedPackages()

t.test('what the lock file installs for running svc is what was audited', async t => {
  t.same(audited.map(({ name }) => name).sort(), [...locked.keys()].sort(), 'the set; audit.json changes with it')
  t.ok(audited.length <= 7, 'at most seven packages')
  for (const { name, version, integrity, isOptional, installScripts } of audited) {
    const lock = locked.get(name)
    t.match(
      { version, integrity },
      { version: lock?.version, integrity: lock?.integrity },
      `${name} is the one that was read`
    )
    t.equal(isOptional, lock?.optional === true, `${name}: optional`)
    t.equal(
      installScripts.length > 0,
      lock?.hasInstallScript === true,
      `${name}: whether something runs when it is installed`
    )
  }
})

t.test('what is installed has the licence and the scripts that were audited', async t => {
  for (const { name, licence, installScripts } of audited) {
    const installed = installedPackage(name)
    if (installed === null) {
      t.pass(`${name} is optional and not installed here`)
      continue
    }
    t.same({ licence: installed.licence, installScripts: installed.installScripts }, { licence, installScripts }, name)
  }
})
