/* The second thread of an extraction. second-stage.ts starts it and describes its purpose. */
import { createEntryReader } from '../../archive/entry-data.js'
import { OpenFile } from '../../../base/files.js'
import { serveThread } from '../../../base/workers.js'
import { disk } from '../disk.js'
import { holdFolders } from '../held.js'
import { type Item, recordsIn } from '../plan.js'
import { cell, type NumberedEntry, type StageMessage, type StageTask } from './second-stage.js'
import { createStage } from '../staging.js'

type Work = ReturnType<typeof begin>

function begin(task: StageTask, cells: Int32Array) {
  let failure: { error: unknown } | null = null
  const isStopped = (): boolean => Atomics.load(cells, cell.stop) !== 0
  const fail = (error: unknown): void => {
    failure ??= { error }
    Atomics.store(cells, cell.stop, 1)
  }
  const opened: Array<{ close(): void }> = []
  let stageOne: ((file: NumberedEntry) => void) | null = null
  try {
    const file = new OpenFile(task.archivePath)
    opened.push(file)
    // The first thread closes the target.
    const folders = holdFolders(disk, { ...task.root, close: () => {} })
    opened.push(folders)
    const reader = createEntryReader({ file, fileSize: file.size })
    const items: Item[] = []
    const stage = createStage({
      disk,
      folders,
      staging: task.staging,
      umask: task.umask,
      toleranceMs: task.toleranceMs,
      items,
      records: recordsIn(task.records),
      check() {
        if (isStopped()) throw new Error('The extraction was abandoned')
      }
    })
    stageOne = ({ index, entry }) => {
      items[index] = entry
      stage.file(index, reader.readWhole(entry))
      items.length = 0
    }
  } catch (error) {
    fail(error)
  }
  return {
    batch(batch: NumberedEntry[]): void {
      try {
        for (const file of batch) if (!isStopped()) stageOne?.(file)
      } catch (error) {
        fail(error)
      }
      Atomics.add(cells, cell.done, 1)
    },

    /** Ends the work. Throws the first error. */
    end(): void {
      for (const each of opened) each.close()
      if (failure !== null) throw failure.error
    }
  }
}

let work: Work | null = null

serveThread((message: StageMessage): void => {
  if (message.kind === 'begin') {
    work = begin(message.task, message.cells)
  } else if (message.kind === 'batch') {
    work?.batch(message.batch)
  } else {
    const ended = work
    work = null
    ended?.end()
  }
})
