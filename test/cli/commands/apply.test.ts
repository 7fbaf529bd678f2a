import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeTestBundle } from '../../support/bundles.js'
import { svc } from '../../support/svc.js'

t.test('the first bytes say what a file is, and options of the other kind are refused', async t => {
  const cwd = t.testdir()
  writeTestBundle(join(cwd, 'site.svcb'))
  writeFileSync(join(cwd, 'export.zip'), 'PK\u0003\u0004')
  writeFileSync(join(cwd, 'part.svcb.002'), 'svc-bundle-part 1\n')
  writeFileSync(join(cwd, 'svc.server.json'), '{"format":"svc-server-1"}')
  const rows: Array<[words: string, code: number, says: RegExp]> = [
    ['site.svcb --dry-run', 1, /The project is missing|address is missing|deploy token is missing/],
    ['site.svcb', 1, /Applying a bundle needs a confirmation, but there is no terminal/],
    ['site.svcb --yes --secrets', 2, /--secrets is for the file of a server/],
    ['site.svcb --yes --set-env WORD', 2, /--set-env cannot be "WORD"/],
    ['export.zip --yes', 1, /Cannot read the bundle: it is incomplete/],
    ['part.svcb.002 --yes', 1, /"part\.svcb\.002" is cut off/],
    ['', 1, /Changing the server needs a confirmation/],
    ['--yes --project shop', 2, /--project is for a bundle, and "svc\.server\.json" is none/],
    ['missing.json --yes', 1, /missing\.json/]
  ]
  for (const [words, code, says] of rows) {
    const line = ['apply', ...words.split(' ').filter(Boolean)]
    t.match(await svc(line, { cwd }), { code, stdout: '', stderr: says }, words)
  }
})
