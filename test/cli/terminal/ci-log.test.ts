import t from 'tap'
import { createCiLog } from '../../../lib/cli/terminal/ci-log.js'

function stage(env: Record<string, string>, isRaw = true) {
  const printed: string[] = []
  const log = createCiLog(env, { print: line => void printed.push(line), isRaw, nowMs: () => 1_700_000_000_999 })
  log.open('Output')
  const hostile = [
    '::error::forged',
    '  ::add-mask::a',
    'text ##[add-path]/evil',
    '##vso[task.setvariable variable=PATH]/evil',
    "##teamcity[buildStatus text='x']",
    '\u001b[0Ksection_end:1:svc_deployment\r\u001b[0K',
    '::endgroup::',
    'plain'
  ]
  for (const line of hostile) log.line(line)
  log.close()
  return { printed, log, hostile }
}

t.test('on GitHub, Gitea and Forgejo, workflow commands are disabled within the section', async t => {
  for (const name of ['GITHUB_ACTIONS', 'GITEA_ACTIONS', 'FORGEJO_ACTIONS']) {
    const { printed, hostile, log } = stage({ [name]: 'true' })
    const [group, stop = '', ...rest] = printed
    const word = stop.replace('::stop-commands::', '')
    t.equal(group, '::group::Output')
    t.match(word, /^svc-[0-9a-f]{32}$/)
    t.strictSame(rest, [...hostile, `::${word}::`, '::endgroup::'], 'the lines are unchanged')
    const other = stage({ [name]: 'true' }).printed[1]
    t.not(other, stop, 'another word each time')
    t.equal(log.harmless('✘ failed: ##[add-path]/evil'), '✘ failed: ## [add-path]/evil')
    for (const line of hostile) t.notMatch(log.harmless(line), /^\s*::|##\[/m)
    t.notMatch(log.harmless('a\r::error::b\n ::x::'), /[\r\n]\s*::/)
  }
})

t.test('on GitLab, the output is a section that no line can end', async t => {
  const { printed } = stage({ GITLAB_CI: 'true' })
  t.equal(printed[0], '\u001b[0Ksection_start:1700000000:svc_deployment\r\u001b[0KOutput')
  t.equal(printed.at(-1), '\u001b[0Ksection_end:1700000000:svc_deployment\r\u001b[0K')
  for (const line of printed.slice(1, -1)) t.notMatch(line, /section_(start|end)/)
  t.equal(
    stage({ GITLAB_CI: 'true' }, false).printed.length,
    printed.length - 2,
    'no marks where they would be cleaned away'
  )
})

t.test('on Azure Pipelines and TeamCity, no line is a command', async t => {
  for (const line of stage({ TF_BUILD: 'True' }).printed) t.notMatch(line, /##(vso)?\[/)
  for (const line of stage({ TEAMCITY_VERSION: '2025' }).printed) t.notMatch(line, /##teamcity\[/)
})

t.test('elsewhere, the output is unchanged', async t => {
  for (const env of [{}, { GITHUB_ACTIONS: 'false' }, { CI: 'true' }]) {
    const { printed, hostile } = stage(env as Record<string, string>)
    t.strictSame(printed, hostile)
  }
})
