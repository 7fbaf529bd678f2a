import { bulkFields, changeFields, newFields } from '../../log-sources.js'
import { logLevels } from '../../../model/log-level.js'
import type { LogSource } from '../../../model/log-source.js'
import { answer, media, query, switchSchema, type Operations } from '../operation.js'
import { bulkOutcome, done, logSource, logSourceMeta, logWindow, success } from '../records.js'
import { list, record } from '../schema.js'

const items = record<{ items: LogSource[] }>({ items: list(logSource) })
const offset = { type: 'integer', minimum: 0 }
const instantText = { type: 'string', format: 'date-time' }
const zone = query('zone', 'The time zone of lines that have none: minutes east of Greenwich', { type: 'integer', minimum: -840, maximum: 840 })
const fileErrors = ['not_found', 'file_missing', 'denied_path', 'not_a_file', 'not_readable', 'file_unreachable', 'changed_meanwhile', 'broken_gzip', 'inflates_too_large', 'no_space', 'invalid_field']

export const logOperations: Operations = {
  'GET /api/projects/:id/log-sources': { summary: 'List the log sources of a project', answers: answer('The log sources', items), errors: ['not_found'] },
  'POST /api/projects/:id/log-sources': {
    summary: 'Add log sources to a project',
    body: newFields,
    answers: answer('The new log sources', record<{ success: true; items: LogSource[] }>({ success, items: list(logSource) })),
    errors: [...fileErrors, 'too_many_sources', 'invalid_path', 'forbidden_path', 'not_a_directory']
  },
  'GET /api/log-sources': { summary: 'List all log sources', answers: answer('The log sources', items) },
  'POST /api/log-sources/bulk': {
    summary: 'Remove several log sources',
    body: bulkFields,
    answers: answer('The number of removed log sources, and those that failed', record<{ success: true; done: number; failed: Array<{ id: string; error: string }> }>({
      success, ...bulkOutcome
    }))
  },
  'PATCH /api/log-sources/:sourceId': {
    summary: 'Change a log source',
    body: changeFields,
    answers: answer('The log source', record<{ success: true; source: LogSource }>({ success, source: logSource })),
    errors: ['not_found']
  },
  'DELETE /api/log-sources/:sourceId': {
    summary: 'Remove a log source', description: 'Its file stays.', answers: answer('The log source was removed', done), errors: ['not_found']
  },
  'GET /api/log-sources/:sourceId/meta': { summary: 'Get the size and the real path of a log file', answers: answer('The file', logSourceMeta), errors: fileErrors },
  'GET /api/log-sources/:sourceId/range': {
    summary: 'Read a part of a log file, in whole lines',
    parameters: [
      query('direction', 'From the offset on, up to the offset, or the end of the file. Default: "tail" without an offset, otherwise "forward"', {
        type: 'string', enum: ['forward', 'backward', 'tail']
      }),
      query('offset', 'A byte of the file', offset),
      query('time', 'Instead of the offset: begins at the first line of this time or later', instantText), zone,
      query('size', 'Maximum size of the part in bytes; larger values become 1048576. Default: 65536', { type: 'integer', minimum: 1 })
    ],
    answers: answer('The lines', logWindow),
    errors: [...fileErrors, 'no_times']
  },
  'GET /api/log-sources/:sourceId/download': {
    summary: 'Download a log file', description: 'A compressed file is decompressed.', answers: media('The file', 'text/plain'), errors: fileErrors
  },
  'GET /api/log-sources/:sourceId/stream': {
    summary: 'Follow a log file',
    description: 'Server-sent events `snapshot`, `lines`, `rotated`, `gap` and `error`.',
    parameters: [query('tailLines', 'Number of lines to begin with, at most 5000. Default: 200', { type: 'integer', minimum: 0 })],
    answers: media('The events', 'text/event-stream', 'event: lines\ndata: {"lines":["GET /"]}\n\n'),
    errors: [...fileErrors, 'invalid_field']
  },
  'GET /api/log-sources/:sourceId/search': {
    summary: 'Search a log file',
    description: 'Server-sent events `hit`, `truncated` and, at the end, `done`.',
    parameters: [
      query('q', 'The text or the regular expression to find', { type: 'string' }, true),
      query('regex', 'Whether `q` is a regular expression', switchSchema),
      query('caseInsensitive', 'Whether case is ignored', switchSchema),
      query('maxHits', 'Maximum number of hits; larger values become 5000. Default: 500', { type: 'integer', minimum: 1 }),
      query('context', 'Number of lines before and after each hit, at most 20. Default: 2', { type: 'integer', minimum: 0 }),
      query('order', 'Which hits come first. Default: "oldest"', { type: 'string', enum: ['oldest', 'newest'] }),
      query('level', 'Only lines of this level or worse', { type: 'string', enum: logLevels }),
      query('since', 'Only lines of this time or later', instantText), query('until', 'Only lines before this time', instantText), zone,
      query('fromOffset', 'The byte at which the search begins', offset),
      query('toOffset', 'The byte before which the search ends', offset)
    ],
    answers: media('The events', 'text/event-stream', 'event: hit\ndata: {"offset":0,"text":"GET /","before":[],"after":[]}\n\n'),
    errors: [...fileErrors, 'invalid_field', 'no_times', 'search_too_slow', 'too_many_searches']
  }
}
