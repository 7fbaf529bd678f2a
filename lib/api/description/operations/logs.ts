import { bulkFields, changeFields, newFields } from '../../log-sources.js'
import { logLevels } from '../../../shared/log-level.js'
import type { LogSource } from '../../../model/log-source.js'
import {
  answer,
  fieldsOf,
  lastEventId,
  media,
  query,
  requiredQuery,
  switchSchema,
  type Operations
} from '../operation.js'
import { bulkOutcome, done, success } from '../records/common.js'
import { logSource, logSourceMeta, logWindow } from '../records/logs.js'
import { list, record } from '../schema.js'

const items = record<{ items: LogSource[] }>({ items: list(logSource) })
const offset = { type: 'integer', minimum: 0 }
const instantText = { type: 'string', format: 'date-time' }
const zone = query('zone', 'Time zone of lines without a time zone, in minutes east of Greenwich', {
  type: 'integer',
  minimum: -840,
  maximum: 840
})
const fileErrors = [
  'not_found',
  'file_missing',
  'denied_path',
  'not_a_file',
  'not_readable',
  'file_unreachable',
  'changed_meanwhile',
  'broken_gzip',
  'inflates_too_large',
  'no_space',
  'invalid_field'
]

/** Log sources, and the content of their files. */
export const logOperations: Operations = {
  'GET /api/projects/:id/log-sources': {
    summary: 'List the log sources of a project',
    answers: answer('The log sources', items),
    errors: ['not_found']
  },
  'POST /api/projects/:id/log-sources': {
    summary: 'Add log sources to a project',
    body: newFields,
    fields: { items: 'The log sources to add. If one of them is invalid, none is added' },
    answers: answer(
      'The new log sources',
      record<{ success: true; items: LogSource[] }>({ success, items: list(logSource) })
    ),
    errors: [...fileErrors, 'too_many_sources', 'invalid_path', 'forbidden_path', 'not_a_directory']
  },
  'POST /api/projects/:id/log-sources/pm2': {
    summary: 'Add the log files of the PM2 application of a project',
    description: 'Files that are log sources of the project already are left as they are.',
    answers: answer(
      'The new log sources',
      record<{ success: true; items: LogSource[] }>({ success, items: list(logSource) })
    ),
    errors: [...fileErrors, 'no_pm2_logs', 'too_many_sources', 'invalid_path', 'forbidden_path', 'not_a_directory']
  },
  'GET /api/log-sources': { summary: 'List all log sources', answers: answer('The log sources', items) },
  'POST /api/log-sources/bulk': {
    summary: 'Remove several log sources',
    body: bulkFields,
    fields: { ids: 'Ids of the log sources' },
    answers: answer(
      'The number of removed log sources, and the failures',
      record<{ success: true; done: number; failed: Array<{ id: string; error: string }> }>({
        success,
        ...bulkOutcome
      })
    )
  },
  'PATCH /api/log-sources/:sourceId': {
    summary: 'Change a log source',
    body: changeFields,
    fields: { ...fieldsOf(logSource), filePath: 'Not allowed: the path of a log source cannot be changed' },
    answers: answer('The log source', record<{ success: true; source: LogSource }>({ success, source: logSource })),
    errors: ['not_found']
  },
  'DELETE /api/log-sources/:sourceId': {
    summary: 'Remove a log source',
    description: 'The log file itself is not deleted.',
    answers: answer('The log source was removed', done),
    errors: ['not_found']
  },
  'GET /api/log-sources/:sourceId/meta': {
    summary: 'Get the size and the real path of a log file',
    answers: answer('The file', logSourceMeta),
    errors: fileErrors
  },
  'GET /api/log-sources/:sourceId/range': {
    summary: 'Read a part of a log file, in whole lines',
    parameters: [
      query(
        'direction',
        '"forward" reads from the offset, "backward" reads up to it, "tail" reads the end of the file. Default: "forward" if `offset` is given, otherwise "tail"',
        {
          type: 'string',
          enum: ['forward', 'backward', 'tail']
        }
      ),
      query('offset', 'Byte offset in the file', offset),
      query('time', 'Begins at the first line with this time or a later one, instead of `offset`', instantText),
      zone,
      query('size', 'Maximum size in bytes. Default: 65536. Values above 1048576 are lowered to 1048576', {
        type: 'integer',
        minimum: 1
      })
    ],
    answers: answer('The lines', logWindow),
    errors: [...fileErrors, 'no_times']
  },
  'GET /api/log-sources/:sourceId/download': {
    summary: 'Download a log file',
    description: 'A file compressed with gzip is decompressed.',
    answers: media('The file', 'text/plain'),
    errors: fileErrors
  },
  'GET /api/log-sources/:sourceId/stream': {
    summary: 'Follow a log file',
    description:
      'Streams server-sent events: `snapshot`, `lines`, `rotated`, `gap`, `resumed` and `error`. After an interruption, send the last `id` to continue: `resumed` comes instead of `snapshot`, and no line is missing. If the file no longer exists, `gap` comes first.',
    parameters: [
      query(
        'tailLines',
        'Number of existing lines to send first. Default: 200. Values above 5000 are lowered to 5000',
        { type: 'integer', minimum: 0 }
      ),
      lastEventId,
      query('lastEventId', 'The same, for clients that cannot set headers. The header comes first', { type: 'string' })
    ],
    answers: media('The events', 'text/event-stream', { example: 'event: lines\ndata: {"lines":["GET /"]}\n\n' }),
    errors: [...fileErrors, 'invalid_field']
  },
  'GET /api/log-sources/:sourceId/search': {
    summary: 'Search a log file',
    description: 'Streams server-sent events: `hit`, `truncated` and, at the end, `done`.',
    parameters: [
      requiredQuery('q', 'The text or the regular expression to find'),
      query('regex', 'Whether `q` is a regular expression', switchSchema),
      query('caseInsensitive', 'Whether to ignore case', switchSchema),
      query('raw', 'Whether colours and other control sequences are part of the lines. Default: no', switchSchema),
      query('maxHits', 'Maximum number of hits. Default: 500. Values above 5000 are lowered to 5000', {
        type: 'integer',
        minimum: 1
      }),
      query(
        'context',
        'Number of lines to return before and after each hit. Default: 2. Values above 20 are lowered to 20',
        {
          type: 'integer',
          minimum: 0
        }
      ),
      query('order', 'Which hits to return first. Default: "oldest"', { type: 'string', enum: ['oldest', 'newest'] }),
      query('level', 'Only lines of this level or a more severe one', { type: 'string', enum: logLevels }),
      query('since', 'Only lines with this time or a later one', instantText),
      query('until', 'Only lines before this time', instantText),
      zone,
      query('fromOffset', 'Byte offset at which the search begins', offset),
      query('toOffset', 'Byte offset before which the search ends', offset)
    ],
    answers: media('The events', 'text/event-stream', {
      example: 'event: hit\ndata: {"offset":0,"text":"GET /","before":[],"after":[]}\n\n'
    }),
    errors: [...fileErrors, 'invalid_field', 'no_times', 'search_too_slow', 'too_many_searches']
  }
}
