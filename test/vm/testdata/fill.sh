# Keeps the root file system full: what anybody frees is taken again.
mkdir -p /fill
n=0
while :; do
  for size in 256M 4M 64K 4K; do
    while fallocate -l $size /fill/$n 2>/dev/null; do n=$((n + 1)); done
    rm -f /fill/$n
  done
  sleep 0.1
done
