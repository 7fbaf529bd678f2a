import { isAbsolute } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { countOf, oneLine } from '../../base/text.js'
import { type LogKind, logKinds, type LogSource } from '../../model/log-source.js'
import { findProject, nearOr } from '../client/named-project.js'
import { openAdmin, openProjectAsAdmin, projectIdOf } from '../client/session.js'
import { defineCommand, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, projectOperand, sharedOptions } from '../common-options.js'

const sourceOptions = { project: { ...sharedOptions.project, help: projectOperand.help }, ...adminOptions } as const

/** The commands for the log files that a project has registered. */
export const commands = {
  'logs sources list': defineCommand({
    options: { json: toggle('print the log sources as JSON'), ...sourceOptions },
    details: `"svc tail" prints and follows the files.\n\n${adminDetails('viewer')}`,
    examples: [['logs sources list --project shop', 'list the log files of a project']],
    async run({ options }, context) {
      const { client, config } = await openProjectAsAdmin(context, options)
      const id = projectIdOf(context, config)
      const { items } = await client.call('GET /api/projects/:id/log-sources', { id })
      context.output.list(options.json, items, {
        empty: 'The project has no log sources. "svc logs sources add" adds its log files.',
        columns: [
          { header: 'LABEL', cell: ({ label }) => oneLine(label), shrinkTo: 10 },
          { header: 'KIND', cell: ({ kind }) => kind, drop: 'first' },
          { header: 'FILE', cell: ({ filePath }) => oneLine(filePath), shrinkTo: 10 },
          { header: 'ID', cell: ({ id }) => id, drop: 'last' }
        ]
      })
    }
  }),

  'logs sources add': defineCommand({
    operands: { filePath: { required: true, repeatable: true, help: 'absolute paths of log files on the server' } },
    options: {
      label: option('text', 'name of the file in lists; default: its file name'),
      kind: option('kind', `what the lines are: ${logKinds.join(', ')}; default: plain`, { choices: logKinds }),
      json: toggle('print the new log sources as JSON'),
      ...sourceOptions
    },
    details:
      'If the server refuses one of the files, it adds none. "svc projects pm2-logs" adds those of a PM2 application.\n\n' +
      adminDetails('admin'),
    examples: [
      ['logs sources add /var/log/shop.log --project shop', 'add a log file to a project'],
      ['logs sources add /var/log/nginx/access.log --kind nginx --label web', 'add a log of nginx with a name']
    ],
    async run({ options, operands }, context) {
      const { label, kind, json } = options
      const paths = operands.filePath
      if (label !== undefined && paths.length > 1)
        throw usage('--label', '--label names one file: add others separately')
      const relative = paths.find(path => !isAbsolute(path))
      if (relative !== undefined) throw usage(relative, `"${relative}" is not absolute: give the path on the server`)
      const items = paths.map(filePath => ({
        filePath,
        ...(label !== undefined && { label }),
        ...(kind !== undefined && { kind: kind as LogKind })
      }))
      const { client, config } = await openProjectAsAdmin(context, options)
      const given = { id: projectIdOf(context, config), body: { items } }
      const { items: added } = await client.call('POST /api/projects/:id/log-sources', given)
      context.output.result(json, added, () => added.map(each => oneLine(`Added ${each.label}: ${each.filePath}`)))
    }
  }),

  'logs sources remove': defineCommand({
    operands: { source: { required: true, help: 'label, path or id of the log source' } },
    options: {
      json: toggle('print the removed log source as JSON'),
      ...sourceOptions,
      project: { ...sharedOptions.project, help: 'id or name of the project; default: search all projects' }
    },
    details: `The file itself is not deleted.\n\n${adminDetails('operator')}`,
    examples: [['logs sources remove shop.log --project shop', 'remove a log file from a project']],
    async run({ options, operands }, context) {
      const { client } = await openAdmin(context, options)
      const { call } = client
      const { items } =
        options.project === undefined
          ? await call('GET /api/log-sources')
          : await call('GET /api/projects/:id/log-sources', { id: (await findProject(client, options.project)).id })
      const source = sourceAmong(items, operands.source)
      await call('DELETE /api/log-sources/:sourceId', { sourceId: source.id })
      const { label, filePath } = source
      context.output.result(options.json, source, oneLine(`Removed ${label}: ${filePath} itself was not deleted`))
    }
  })
} satisfies Family

/** Returns the log source with an id, a path or a label. Refuses an unknown one, and what several have. */
function sourceAmong(sources: readonly LogSource[], word: string): LogSource {
  const byId = sources.filter(({ id }) => id === word)
  const found = byId.length > 0 ? byId : sources.filter(({ label, filePath }) => label === word || filePath === word)
  const [source, ...others] = found
  if (source === undefined) {
    const names = sources.flatMap(({ label, filePath }) => [label, filePath])
    const advice = nearOr(word, names, '"svc logs sources list" shows those of a project')
    throw new Refusal('not_found', 'no_such_source', oneLine(`Log source not found: "${word}". ${advice}`))
  }
  if (others.length === 0) return source
  const ids = found.map(({ id }) => id).join(', ')
  throw usage(
    word,
    `${countOf(found.length, 'log source')} are called "${oneLine(word)}". Use one of their ids: ${ids}`
  )
}
