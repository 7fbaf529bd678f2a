import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { fileURLToPath } from 'node:url'
import { cannotIsolate } from '../support/namespaces.js'
import { commit, systems } from './ci/systems.js'
import { top } from './document.js'
import { linksOf } from './markdown.js'

const run = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1e8 })

t.test('a test runs every file of docs/ci, and docs/ci.md describes it', async t => {
  const there = readdirSync(join(top, 'docs/ci'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name).slice(join(top, 'docs/ci/').length))
    .sort()
  t.same(
    Object.values(systems)
      .flatMap(({ files }) => Object.keys(files))
      .sort(),
    there
  )
  const described = new Set(linksOf(readFileSync(join(top, 'docs/ci.md'), 'utf8')).map(({ to }) => to))
  for (const path of there) t.ok(described.has(`ci/${path}`), path)
})

t.test(
  'the files of docs/ci build and deploy a site with only Node, npm and a shell',
  { skip: cannotIsolate() },
  async t => {
    const directory = mkdtempSync(join(tmpdir(), 'svc-ci-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    // The build has packed it as `make dist` does.
    const client = join(top, 'dist/client.tgz')
    const [unpacked, work] = [join(directory, 'client'), join(directory, 'work')]
    for (const place of [unpacked, work]) mkdirSync(place)
    run('tar', 'xzf', client, '-C', unpacked, '--strip-components=1')
    const program = fileURLToPath(new URL('./ci/run-systems.js', import.meta.url))
    const seen = JSON.parse(
      run(
        '/usr/bin/env',
        '-u',
        'NODE_OPTIONS',
        'unshare',
        '--net',
        '--mount',
        process.execPath,
        program,
        unpacked,
        work
      )
    )
    for (const [name, { env }] of Object.entries(systems)) {
      const { refused, done, deployed, files, records, saysToken, summary } = seen[name]
      t.not(refused.code, 0, `${name}: a wrong token fails the job`)
      t.match(refused.said, /token/i)
      t.equal(records.length, 1, `${name}: a job with a wrong token deploys nothing`)
      t.equal(done.code, 0, `${name}: ${done.said}`)
      t.equal(deployed, `built by ${env['CI']}`)
      t.same(files, ['index.html'], 'the target contains nothing else')
      t.match(records[0], {
        status: 'success',
        triggerSource: 'cli',
        provenance: { commit, branch: 'main', ci: { system: name, run: String } }
      })
      if ('GITHUB_STEP_SUMMARY' in env) t.match(summary, /Deployed to/, 'the page of the run shows the deployment')
      t.notOk(saysToken, 'the log of the job contains no token')
    }
  }
)
