import type { Continued, Switch } from './common.js'
import type { Instant } from '../../model/scalars.js'
import type { LogSource, LogSourceMeta, LogWindow } from '../../model/log-source.js'
import type { bulkFields, changeFields, newFields } from '../log-sources.js'

/** Log sources, and the content of their files. */
export interface LogRoutes {
  /** List the log sources of a project. @errors not_found */
  'GET /api/projects/:id/log-sources': {
    /** The log sources. */
    answer: { items: LogSource[] }
  }
  /** Add log sources to a project. @errors *file too_many_sources invalid_path forbidden_path not_a_directory */
  'POST /api/projects/:id/log-sources': {
    body: typeof newFields
    /** The new log sources. */
    answer: { success: true; items: LogSource[] }
  }
  /**
   * Add the log files of the PM2 application of a project.
   *
   * Files that are log sources of the project already are left as they are.
   * @errors *file no_pm2_logs too_many_sources invalid_path forbidden_path not_a_directory
   */
  'POST /api/projects/:id/log-sources/pm2': {
    /** The new log sources. */
    answer: { success: true; items: LogSource[] }
  }
  /** List all log sources. */
  'GET /api/log-sources': {
    /** The log sources. */
    answer: { items: LogSource[] }
  }
  /** Remove several log sources. */
  'POST /api/log-sources/bulk': {
    body: typeof bulkFields
    /** The number of removed log sources, and the failures. */
    answer: { success: true; done: number; failed: Array<{ id: string; error: string }> }
  }
  /** Change a log source. @errors not_found */
  'PATCH /api/log-sources/:sourceId': {
    body: typeof changeFields
    /** The log source. */
    answer: { success: true; source: LogSource }
  }
  /**
   * Remove a log source.
   *
   * The log file itself is not deleted.
   * @errors not_found
   */
  'DELETE /api/log-sources/:sourceId': {
    /** The log source was removed. */
    answer: { success: true; message: string }
  }
  /** Get the size and the real path of a log file. @errors *file */
  'GET /api/log-sources/:sourceId/meta': {
    /** The file. */
    answer: LogSourceMeta
  }
  /** Read a part of a log file, in whole lines. @errors *file no_times */
  'GET /api/log-sources/:sourceId/range': {
    query: {
      /**
       * "forward" reads from the offset, "backward" reads up to it, "tail" reads the end of the file. Default:
       * "forward" if `offset` is given, otherwise "tail".
       */
      direction?: 'forward' | 'backward' | 'tail'
      /** Byte offset in the file. @minimum 0 */
      offset?: number
      /** Begins at the first line with this time or a later one, instead of `offset`. */
      time?: Instant
      /**
       * Time zone of lines without a time zone, in minutes east of Greenwich.
       * @minimum -840
       * @maximum 840
       */
      zone?: number
      /** Maximum size in bytes. Default: 65536. Values above 1048576 are lowered to 1048576. @minimum 1 */
      size?: number
    }
    /** The lines. */
    answer: LogWindow
  }
  /**
   * Download a log file.
   *
   * A file compressed with gzip is decompressed.
   * @errors *file
   */
  'GET /api/log-sources/:sourceId/download': {
    /** The file. */
    media: 'text/plain'
  }
  /**
   * Follow a log file.
   *
   * Streams server-sent events: `snapshot`, `lines`, `rotated`, `gap`, `resumed` and `error`. After an interruption,
   * send the last `id` to continue: `resumed` comes instead of `snapshot`, and no line is missing. If the file no
   * longer exists, `gap` comes first.
   * @errors *file invalid_field
   */
  'GET /api/log-sources/:sourceId/stream': {
    query: {
      /** Number of existing lines to send first. Default: 200. Values above 5000 are lowered to 5000. @minimum 0 */
      tailLines?: number
      /** The same, for clients that cannot set headers. The header comes first. */
      lastEventId?: string
    }
    headers: Continued
    /** The events. @example "event: lines\ndata: {\"lines\":[\"GET /\"]}\n\n" */
    media: 'text/event-stream'
  }
  /**
   * Search a log file.
   *
   * Streams server-sent events: `hit`, `truncated` and, at the end, `done`.
   * @errors *file invalid_field no_times search_too_slow too_many_searches
   */
  'GET /api/log-sources/:sourceId/search': {
    query: {
      /** The text or the regular expression to find. */
      q: string
      /** Whether `q` is a regular expression. */
      regex?: Switch
      /** Whether to ignore case. */
      caseInsensitive?: Switch
      /** Whether colours and other control sequences are part of the lines. Default: no. */
      raw?: Switch
      /** Maximum number of hits. Default: 500. Values above 5000 are lowered to 5000. @minimum 1 */
      maxHits?: number
      /**
       * Number of lines to return before and after each hit. Default: 2. Values above 20 are lowered to 20.
       * @minimum 0
       */
      context?: number
      /** Which hits to return first. Default: "oldest". */
      order?: 'oldest' | 'newest'
      /** Only lines of this level or a more severe one. */
      level?: 'error' | 'warn' | 'info' | 'debug'
      /** Only lines with this time or a later one. */
      since?: Instant
      /** Only lines before this time. */
      until?: Instant
      /**
       * Time zone of lines without a time zone, in minutes east of Greenwich.
       * @minimum -840
       * @maximum 840
       */
      zone?: number
      /** Byte offset at which the search begins. @minimum 0 */
      fromOffset?: number
      /** Byte offset before which the search ends. @minimum 0 */
      toOffset?: number
    }
    /** The events. @example "event: hit\ndata: {\"offset\":0,\"text\":\"GET /\",\"before\":[],\"after\":[]}\n\n" */
    media: 'text/event-stream'
  }
}
