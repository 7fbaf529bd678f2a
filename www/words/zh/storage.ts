import type { Words } from '../t.js'

/** Texts of `pages/storage.ts`. */
export const words: Words = {
  'the storage': '存储',
  '{size} in use': '已用 {size}',
  '{path}: {free} of {total} free on its disk': '{path}：所在磁盘剩余 {free}，共 {total}',
  'Data directory': '数据目录',
  'Archives and earlier files': '压缩包和先前的文件',
  Archives: '压缩包',
  'Output and file lists': '输出与文件清单',
  'Temporary files': '临时文件',
  Database: '数据库',
  'The disk is {percent} full, including the files of other programs.': '磁盘已用 {percent}（包括其他程序的内容）。',
  'No project uses storage yet.': '还没有项目，没有保留任何内容。',
  Project: '项目',
  Size: '大小',
  Outputs: '输出',
  Target: '目标目录',
  '{size} stored': '保留了 {size}',
  'Missing, or too large to measure quickly': '不存在，或太大而无法即时统计',
  'Clean up?': '要清理吗？',
  'Deletes older archives of successful deployments and unused temporary files. You can no longer roll back to those deployments. Targets, records and outputs stay. A preview is shown first.':
    '会删除成功部署的旧压缩包（之后无法再回滚到这些部署）以及无用的临时文件。目标目录、记录和输出都会保留。会先显示将删除的内容。',
  'Archives to keep per project': '每个项目保留的压缩包数',
  Scope: '范围',
  'Show all {count}': '显示全部 {count}',
  'All projects and temporary files': '所有项目及临时文件',
  'All projects, temporary files and files without a record': '以上内容及没有记录的文件',
  'Files without a record': '没有记录的文件',
  '{count} without a record are kept ({size}): they may be all that remains of a lost database. Change the scope to delete them.':
    '{count}没有记录，予以保留（{size}）：它们可能是丢失的数据库仅存的内容。是否删除由范围决定。',
  'Preview…': '查看将删除的内容…',
  'Nothing to delete: no project keeps more archives than that.': '没有可删除的内容：保留的数量未超过此值。',
  'This frees {size}. You can no longer roll back to these deployments:':
    '将释放 {size}。之后将永远无法回滚到这些部署：',
  'Deleting…': '正在删除…',
  'Delete {count}': '删除 {count}',
  '{size} freed': '已释放 {size}',
  archive: '个压缩包',
  'Other projects': '以及其他'
}
