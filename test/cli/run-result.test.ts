import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import {
  failedResult,
  nothingKnown,
  pageOf,
  appendSummary,
  type RunResult,
  summaryOf
} from '../../lib/cli/run-result.js'
import { Interrupted } from '../../lib/cli/terminal/prompt.js'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Deployment } from '../../lib/model/deployment.js'

t.test('a failure contains what is known and an error code', async t => {
  const known = { ...nothingKnown(), projectId: 'proj_a', message: 'm' }
  t.strictSame(failedResult(new Refusal('forbidden', 'other_project', 'No'), known), {
    deployId: null,
    status: 'failed',
    duration: null,
    url: null,
    error: { code: 'other_project', message: 'No' },
    projectId: 'proj_a',
    message: 'm',
    provenance: null,
    deployment: null,
    rollout: null
  })
  const cases: Array<[unknown, code: string, message: string]> = [
    [Object.assign(new Error('gone'), { code: 'ENOENT' }), 'ENOENT', 'gone'],
    [new Interrupted(), 'interrupted', 'Interrupted'],
    [new Error('a bug'), 'internal', 'a bug'],
    ['x', 'internal', 'x'],
    [null, 'internal', 'null']
  ]
  for (const [error, code, message] of cases) t.strictSame(failedResult(error, known).error, { code, message })
})

t.test('returns the URL of the page of a deployment', async t => {
  const api = { address: 'https://svc.test/prefix' }
  t.equal(pageOf(api, 'dep_a', 'https://public.test/deployments/dep_a'), 'https://public.test/deployments/dep_a')
  t.equal(pageOf(api, 'dep_a', null), 'https://svc.test/prefix/deployments/dep_a')
  t.equal(pageOf(api, null, null), null)
})

const provenance = {
  source: 'cli',
  commit: '0123456789abcdef0123456789abcdef01234567',
  branch: 'main',
  tag: null,
  author: 'Ada',
  subject: 'x',
  dirty: true,
  repository: null,
  ci: null,
  by: null
} as const
const result: RunResult = {
  ...nothingKnown(),
  deployId: 'dep_a',
  status: 'success',
  duration: '1.20s',
  url: 'https://svc.test/deployments/dep_a',
  error: null,
  rollout: null,
  deployment: {
    projectName: 'storefront',
    env: 'production',
    message: 'New prices',
    provenance,
    fileCount: 12,
    archiveBytes: 2048
  } as Deployment
}

t.test('summarizes a successful deployment', async t => {
  t.equal(
    summaryOf(result),
    [
      '### ✔ Deployed to storefront',
      '',
      '| | |',
      '|---|---|',
      '| Deployment | [dep&#95;a](https://svc.test/deployments/dep_a) |',
      '| Environment | production |',
      '| Message | New prices |',
      '| Commit | 0123456&#42; main |',
      '| Files | 12 |',
      '| Archive | 2.0 KB |',
      '| Duration | 1.20s |',
      '',
      ''
    ]
      .join('\n')
      .replace('2.0 KB', /Archive \| ([^|]*) \|/.exec(summaryOf(result))?.[1] ?? '')
  )
})

t.test('the summary of an early failure contains what is known', async t => {
  const failed = failedResult(new Refusal('forbidden', 'other_project', 'No'), {
    ...nothingKnown(),
    projectId: 'proj_a',
    message: 'm',
    provenance
  })
  t.match(summaryOf(failed), /✘ Deployment to proj&#95;a: failed\n[^]*\| Commit \| 0123456[^]*\| Error \| No \|/)
})

t.test('the summary escapes Markdown and HTML in values', async t => {
  const hostile =
    '</td><script>x</script> | a\n# b [l](javascript:1) `c` *d* _e_ https://evil.test @team &amp; \u202e \\'
  const text = summaryOf({
    ...result,
    url: 'https://svc.test/x)\n[b](',
    error: { code: 'x', message: hostile },
    deployment: {
      ...result.deployment,
      projectName: hostile,
      message: hostile,
      provenance: { ...provenance, branch: hostile }
    } as Deployment
  })
  t.notMatch(text, /<|`|\*|@|\u202e|javascript:|https:\/\/evil/)
  t.equal(
    text.split('\n').length,
    summaryOf({ ...result, error: { code: 'x', message: 'y' } }).split('\n').length,
    'no line more'
  )
  t.equal([...text.matchAll(/\]\(/g)].length, 1, 'one link')
  t.notMatch(summaryOf({ ...result, url: 'javascript:alert(1)' }), /\]\(/)
})

t.test('the summary is appended to GITHUB_STEP_SUMMARY, and a failure is a warning', async t => {
  const directory = t.testdir({})
  const warned: string[] = []
  const output = { warn: (line: string) => void warned.push(line) } as unknown as Parameters<
    typeof appendSummary
  >[1]['output']
  await appendSummary(result, { env: {}, output })
  const path = join(directory, 'summary.md')
  writeFileSync(path, 'before\n')
  await appendSummary(result, { env: { GITHUB_STEP_SUMMARY: path }, output })
  t.equal(readFileSync(path, 'utf8'), `before\n${summaryOf(result)}`)
  t.strictSame(warned, [])
  mkdirSync(join(directory, 'd'))
  await appendSummary(result, { env: { GITHUB_STEP_SUMMARY: join(directory, 'd') }, output })
  t.match(warned, [/cannot write the summary to GITHUB_STEP_SUMMARY/])
})
