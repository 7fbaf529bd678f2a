import t from 'tap'
import { defineCommand, shownFlag } from '../../lib/cli/command.js'
import { renderCommand } from '../../lib/cli/command-help.js'

const command = defineCommand({
  operands: { deployId: { required: true, help: 'the deployment' }, other: { help: 'another one' } },
  options: {
    follow: { type: 'switch', alias: 'f', help: 'follow it' },
    builtin: { type: 'switch', default: true, help: 'no built-in rules' },
    limit: { type: 'count', value: 'number', default: 5, maximum: 50, help: 'so many' },
    ignore: { type: 'text', value: 'glob', repeatable: true, help: `left out ${'and so on '.repeat(12)}` },
    store: { type: 'text', choices: ['global', 'local'], default: 'global', help: 'where it is kept' }
  },
  details: 'More to know.',
  examples: [
    ['logs dep_1', 'print it'],
    ['logs -f dep_1', 'follow it']
  ],
  run: async () => 0
})

t.test('renderCommand renders the help page of a command from its tables', async t => {
  t.matchOnly(
    renderCommand({ name: 'logs', summary: 'print the output' }, command)
      .split('\n')
      .map(line => line.trimEnd()),
    [
      'svc logs: print the output',
      '',
      'Usage: svc logs <deployId> [other] [options]',
      '',
      'Operands:',
      '  deployId  the deployment',
      '  other     another one',
      '',
      'Options:',
      '  -f, --follow            follow it',
      '  --no-builtin            no built-in rules',
      '  --limit <number>        so many (default 5, at most 50)',
      /^ {2}--ignore <glob> {9}left out and so on .{25,40}$/,
      /^ {26}[ andso]+$/,
      /^ {26}[ andso]+ {1,2}\(repeatable\)$/,
      '  --store <global|local>  where it is kept (default global)',
      '  -h, --help              show this page',
      '',
      'More to know.',
      '',
      'Examples:',
      '  svc logs dep_1',
      '      print it',
      '  svc logs -f dep_1',
      '      follow it',
      ''
    ]
  )
})

t.test('renderCommand fits 80 columns and keeps an option with its value', async t => {
  const page = renderCommand(
    { name: 'go', summary: 'go' },
    {
      ...command,
      details: `${'A long line of words. '.repeat(6)}\nThe same paragraph.\n\nAnother.`,
      examples: [
        [
          `go --one "a value with spaces" --two ${'v'.repeat(20)} --three three --four`,
          'what it does '.repeat(9).trim()
        ]
      ]
    }
  )
  for (const line of page.split('\n')) t.ok(line.length <= 80, line)
  t.match(page, / {2}svc go --one "a value with spaces" --two v{20} \\\n {4}--three three --four\n {6}what it does/)
  t.match(page, /The same paragraph\.\n\nAnother\.\n/)
})

t.test('shownFlag shows how to turn off a switch that is on', async t => {
  t.equal(shownFlag('builtin', { type: 'switch', default: true }), '--no-builtin')
  t.equal(shownFlag('follow', { type: 'switch' }), '--follow')
})
